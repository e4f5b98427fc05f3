"""Files that lamina keeps are written whole and checked when read; files from outside are read within bounds."""
