// Generated from the API's description by `python -m lamina.web.types`; do not edit.

/** What every page needs. */
export interface About {
  models: ModelCard[];
  corpora: string[];
  sentence: string;
  examples: ExampleSentence[];
}

/** An analysis, as it declares itself. */
export interface AnalysisCard {
  name: string;
  title: string;
  question: string;
  method: string;
  cites: string[];
  chapter: string;
  version: number;
  inputs: InputCard[];
  data_options: Record<string, any>;
  settings: Record<string, any>;
  tables: Record<string, TableCard>;
  report: Record<string, any> | null;
  job: boolean;
}

/** An answer, the context with its roles, and the tokens at every layer. */
export interface Answered {
  model: string;
  answer: lamina__web__api__questions__Said;
  text: Part[];
  map: TokenMap;
  notes: string[];
  phases: string | null;
}

/** A model that lamina fine-tuned. */
export interface Answering {
  name: string;
  task: string;
  answers: boolean;
  base: string | null;
}

/** A model's score minus the baseline's. */
export interface Apart {
  analysis: string;
  task: string;
  title: string;
  metric: string;
  statistic: "score_full" | "score_best_layer" | "items";
  model: string;
  value: number | null;
  low: number | null;
  high: number | null;
  reason: string;
  p: number | null;
  paired: boolean;
}

/** An example, or a question about a context. */
export interface Asked {
  model: string;
  /** One of the examples; the texts are then its own. */
  example?: string | null;
  question?: string;
  context?: string;
  /** The expected answer, where it is known. */
  answer?: string;
  method?: "pca" | "tsne" | "ica";
  fit?: "layer" | "all";
  /** By default, layer by layer, what the silhouette says. */
  clusters?: number | null;
}

/** All heads, by every available measure. */
export interface Atlas {
  layers: number;
  heads: number;
  tokens: number;
  measures: Measure[];
  groups: Group[];
  outstanding: Outstanding[];
  sources: Source[];
  missing: string[];
}

/** Which model, on which sentence. */
export interface AtlasWanted {
  model: string;
  sentence: string;
  /** Attention as it is, or times the norm of the value it moves, rows summing to 1 again. */
  weights?: "attention" | "norm";
}

/** The probes' answer for one target; the label with the highest mean probability comes first. */
export interface Belief {
  task: string;
  spans: [number, number][];
  labels: Label[];
}

/** What saved results say about one head; lists are empty if the analysis was not run. */
export interface CardOfHead {
  head: string;
  role: string;
  says: string;
  evidence: EvidenceRow[];
  behaviours: Record<string, any>[];
  relations: Record<string, any>[];
  coreference: Record<string, any>[];
  pattern: Record<string, any>[];
  shapes: Record<string, any>[];
  matters: Record<string, any>[];
  neighbours: Record<string, any>[];
  points: Record<string, any>[];
  sources: Source[];
  missing: string[];
}

/** Which head of which model. */
export interface CardWanted {
  model: string;
  /** LAYER-HEAD, from 1. */
  head: string;
  /** Attention as it is, or times the norm of the value it moves, rows summing to 1 again. */
  weights?: "attention" | "norm";
}

/** A sentence with and without the change. */
export interface Changed {
  words: string[];
  units: string[];
  tokens: number;
  before: Told;
  after: Told;
}

/** What was measured of one side of a model. */
export interface ChapterOfModel {
  name: string;
  title: string;
  question: string;
  results: Summary[];
}

/** One thing that was tried on a model. */
export interface CheckCard {
  name: string;
  verdict: string;
  said: string;
}

/** What one model says in a gap. */
export interface ClozeAnswer {
  model: string;
  kind: "causal" | "masked";
  sees_after: boolean;
  top: lamina__web__api__behaviour__Said[];
  candidates: RatedCandidate[];
}

/** What the saved results say about several models. */
export interface Comparison {
  models: string[];
  shapes: [number, number][];
  scores: Score[];
  differences: Apart[];
  curves: Curves[];
  figures: Figure[];
  findings: FindingCard[];
  layers: ReadAt[];
  heads_of: string[];
  by_head: string[];
  not_compared: NotCompared[];
  diff: Summary | null;
}

/** One analysis of several models in one chart: all on the same axes. */
export interface Curves {
  analysis: string;
  title: string;
  figure: Figure;
}

/** A number with its interval and what it is compared with; null where it was not measured. */
export interface EvidenceRow {
  kind: "finds" | "looks" | "matters";
  title: string;
  unit: string;
  value: number | null;
  low: number | null;
  high: number | null;
  beside: number | null;
  rule: string;
  note: string;
  status: "clear" | "open" | "null" | "missing";
  needs: string[];
}

/** A story that no model was fine-tuned on, with its answer. */
export interface Example {
  id: string;
  title: string;
  question: string;
  context: string;
  answer: string;
}

/** A sentence of the corpus, and the head's strongest link in it. */
export interface ExampleOfHead {
  id: string;
  words: string[];
  source: number;
  target: number;
  weight: number;
  relation: string;
}

/** A sentence worth trying. */
export interface ExampleSentence {
  sentence: string;
  why: string;
}

/** The sentences in which a head does most clearly what it is known for, or asked for, and where it fails. */
export interface ExamplesOfHead {
  head: string;
  sought: string;
  relation: string;
  attends: boolean;
  corpus: string;
  sentences: number;
  limits: string;
  examples: ExampleOfHead[];
  asked: number;
  found: number;
  misses: MissOfHead[];
}

/** Which head of which model, and examples of what. */
export interface ExamplesWanted {
  model: string;
  /** LAYER-HEAD, from 1. */
  head: string;
  /** Attention as it is, or times the norm of the value it moves, rows summing to 1 again. */
  weights?: "attention" | "norm";
  /** A dependency that the head is asked for; empty for what it is known for. */
  relation?: string;
}

/** One chart: a Vega-Lite specification, and the same in words. */
export interface Figure {
  name: string;
  spec: Record<string, any>;
  summary: string;
  caption: string;
}

/** What was found, in a sentence with its number, its interval and what it is compared with. */
export interface FindingCard {
  text: string;
  status: "clear" | "null" | "open" | "untested";
  weight?: number;
}

/** A finding, and the result that it comes from. */
export interface Found {
  text: string;
  status: "clear" | "null" | "open" | "untested";
  weight?: number;
  result: string;
  title: string;
}

/** What one layer says in the place of one token. */
export interface GridCell {
  top: lamina__web__api__behaviour__Said[];
  actual: number | null;
  kl: number;
}

/** Measures of one source. */
export interface Group {
  source: string;
  title: string;
}

export interface HTTPValidationError {
  detail?: ValidationError[];
}

/** A head's largest weight between the word and another one. */
export interface Head {
  layer: number;
  head: number;
  word: number;
  weight: number;
}

/** The strongest links of one head: `counts[i]` of them start at unit i, the strongest first. */
export interface HeadLinks {
  head: string;
  counts: number[];
  to: number[];
  weight: number[];
  rest: number[];
}

/** All heads, the strongest first. */
export interface Heads {
  incoming: Head[];
  outgoing: Head[];
}

/** Something an analysis reads. */
export interface InputCard {
  name: string;
  kind: string;
  help: string;
  required: boolean;
  default: string | null;
  choices: string[];
}

/** One label's probability under the probes P(0)..P(L). */
export interface Label {
  label: string;
  probabilities: number[];
}

/** What the map of one layer shows, and what it leaves out. */
export interface Layer {
  layer: number;
  tokens: number;
  left_out: number;
  explained_x: number | null;
  explained_y: number | null;
  clusters: number;
  silhouette: number | null;
  stability: number | null;
  stable: boolean;
}

/** A sentence with the probes' answers. */
export interface Lens {
  words: string[];
  tokens: number;
  layers: number;
  tasks: TaskCard[];
  seeds: number;
  beliefs: Belief[];
  interesting: number;
}

/** Words or pieces, and the links between them. */
export interface Lines {
  tokens: string[];
  special: boolean[];
  words: number[];
  heads: HeadLinks[];
}

/** Which heads, on which sentence. */
export interface LinesWanted {
  model: string;
  sentence: string | string[];
  heads: string[];
  level?: "word" | "piece";
  /** Attention as it is, or times the norm of the value it moves, rows summing to 1 again. */
  weights?: "attention" | "norm";
}

/** A text as a grid of tokens and layers; layer 0 is the embedding layer, the last one the model's own answer. */
export interface LogitLens {
  model: string;
  kind: "causal" | "masked";
  tokens: string[];
  layers: number;
  cells: GridCell[][];
  reached: number[];
  surprisal: (number | null)[];
}

/** How one kind of thing is drawn. */
export interface Look {
  name: string;
  short: string;
  colour: string;
  fill: string;
  shape: string;
}

/** Words that are asked about; a second span for tasks of pairs. Both ends are included. */
export interface Mark {
  task: string;
  first: number;
  last: number;
  first2?: number | null;
  last2?: number | null;
}

/** A sentence with the spans that are asked about. */
export interface MarkedSentence {
  sentence: string;
  model: string;
  marked?: Mark[];
}

/** One number per head; a category if `names` is not empty. */
export interface Measure {
  source: string;
  name: string;
  title: string;
  unit: string;
  values: (number | null)[][];
  low: number | null;
  high: number | null;
  baseline: number | null;
  rule: string;
  names: string[];
}

/** A sentence of the corpus, and a word in it for which the head chooses a wrong one. */
export interface MissOfHead {
  id: string;
  words: string[];
  asked: number;
  chosen: number;
  right: number;
  weight: number;
  right_weight: number;
  relation: string;
}

/** An available model. */
export interface ModelCard {
  name: string;
  title: string;
  loaded: boolean;
  finetuned: boolean;
  trouble: string | null;
}

/** What was measured of a model. */
export interface ModelOverview {
  model: string;
  findings: Found[];
  glance: Figure | null;
  captions: string[];
  chapters: ChapterOfModel[];
  report: boolean;
}

/** What a model is, and whether its numbers can be trusted. */
export interface ModelVerdict {
  name: string;
  architecture: string;
  blocks: number;
  heads: number;
  width: number;
  limit: number | null;
  causal: boolean;
  language_head: string | null;
  maps: string;
  ablatable: string[];
  checks: CheckCard[];
  verdict: string[];
  refused: Record<string, string>;
  seconds: number;
  transformers: string;
}

/** A word of the corpus near the one asked about. */
export interface Neighbour {
  word: string;
  sentence: string;
  similarity: number;
}

/** At each layer the words nearest by cosine, the nearest first. */
export interface Neighbours {
  corpus: string;
  sentences: number;
  words: number;
  layers: Neighbour[][];
}

/** What cannot be compared, and why. */
export interface NotCompared {
  what: string;
  why: string;
}

/** A model that can be compared with the baseline, or the reason why not. */
export interface Offer {
  name: string;
  title: string;
  twin: boolean;
  shares: string[];
  why: string;
}

/** A word of a sentence. */
export interface OneWord {
  sentence: string;
  model: string;
  word: number;
}

/** A head that stands out on the sentence, and by what. */
export interface Outstanding {
  head: string;
  why: string;
  value: number;
}

/** What one model makes of a pair. */
export interface PairVerdict {
  model: string;
  kind: "causal" | "masked";
  good: SentenceScore;
  bad: SentenceScore;
  right: number;
  right_per_token: number;
  margin: number;
}

/** A word of the context, or the text between two words. */
export interface Part {
  text: string;
  sentence: number;
  support: boolean;
  gold: boolean;
  predicted: boolean;
}

/** A folder that looks like a result and is not listed. */
export interface PassedOver {
  name: string;
  why: string;
}

/** A sentence, whatever the model. */
export interface Plain {
  sentence: string;
}

/** An error, in one readable sentence. */
export interface Problem {
  error: string;
}

/** A computation and its progress. */
export interface Progress {
  id: string;
  state: "queued" | "running" | "done" | "failed" | "cancelled";
  command: string;
  what: string;
  done: number;
  total: number | null;
  message: string;
  elapsed: number;
  estimate: number | null;
}

/** A candidate in the gap. */
export interface RatedCandidate {
  word: string;
  logprob: number;
  pieces: number;
  rank: number;
}

/** A layer that a task is read from. */
export interface ReadAt {
  task: string;
  model: string;
  layer: number;
  value: number;
  low: number;
  high: number;
  among_best: boolean;
}

/** The score of one model at one task; null where it is not available. */
export interface Score {
  analysis: string;
  task: string;
  title: string;
  metric: string;
  statistic: "score_full" | "score_best_layer" | "items";
  model: string;
  value: number | null;
  low: number | null;
  high: number | null;
  reason: string;
}

/** How likely one sentence is. */
export interface SentenceScore {
  logprob: number;
  per_token: number;
  pieces: number;
  words: WordScore[];
}

/** Models to compare; the first is the baseline. `NAME (random)` is a model's twin with random weights. */
export interface Several {
  models: string[];
}

/** A saved result that numbers come from. */
export interface Source {
  analysis: string;
  id: string;
  name: string;
  corpus: string;
  created: string;
}

/** What a model with a span head answers. */
export interface SpanAnswer {
  text: string;
  confidence: number;
}

/** A result in the list. */
export interface Summary {
  id: string;
  name: string;
  analysis: string;
  title: string;
  model: string;
  corpus: string;
  split: string;
  created: string;
  command: string;
  tables: string[];
  findings: FindingCard[];
}

/** A sentence, and the parts of the model that are switched off. */
export interface SwitchedOff {
  sentence: string;
  model: string;
  marked?: Mark[];
  heads?: string[];
  layers?: number[];
  how?: "zero" | "mean";
  question?: string;
  shown?: string[];
  /** Attention as it is, or times the norm of the value it moves, rows summing to 1 again. */
  weights?: "attention" | "norm";
  top?: number;
}

/** What one table of a result holds. */
export interface TableCard {
  rows: string;
  columns: string[];
  optional: boolean;
  kept: "csv" | "parquet";
}

/** A question that there are probes for. */
export interface TaskCard {
  name: string;
  title: string;
  about: string;
  arity: number;
  unasked: boolean;
  labels: number;
}

/** Names, colours and shapes, in the order of legends. */
export interface Theme {
  behaviours: Look[];
  roles: Look[];
  rarest: string[];
  plain: string;
  hues: number;
  dark: Record<string, string>;
}

/** A token, the same at every layer. */
export interface Token {
  word: string;
  role: string;
  roles: string[];
  sentence: number;
  question: boolean;
  support: boolean;
  gold: boolean;
  predicted: boolean;
}

/** The tokens of one question at every layer. */
export interface TokenMap {
  tokens: Token[];
  positions: ([number, number] | null)[][];
  clusters: number[][];
  layers: Layer[];
  drawn: number;
}

/** What the model makes of the sentence. */
export interface Told {
  beliefs: Belief[];
  measures: Measure[];
  links: HeadLinks[];
  said: lamina__web__api__behaviour__Said[] | null;
  answer: SpanAnswer | null;
}

/** A text with one gap, written [MASK], [Y] or ___, and the models that are asked. */
export interface TypedCloze {
  models: string[];
  text: string;
  candidates?: string[];
  top?: number;
}

/** A text, and the model whose layers are put through its head. */
export interface TypedLens {
  model: string;
  text: string;
  top?: number;
}

/** Two sentences, the good one first, and the models that are asked. */
export interface TypedPair {
  models: string[];
  good: string;
  bad: string;
  masking?: "piece" | "word";
}

/** An analysis that was not run for a model, and what it would take. */
export interface Unmeasured {
  analysis: string;
  title: string;
  question: string;
  chapter: string;
  wanted: Record<string, any>;
  state: "waiting" | "trying" | "known" | "failed" | "off";
  seconds: number | null;
  memory: number | null;
  why: string;
}

export interface ValidationError {
  loc: (string | number)[];
  msg: string;
  type: string;
  input?: any;
  ctx?: Record<string, any>;
}

/** What to compute: the same table as `lamina run` reads, its inputs under the names of the analysis. */
export interface Wanted {
  analysis: string;
  model: string;
  /** A name, or a table with `name` and data options; the server's own by default. */
  data?: string | Record<string, any>;
  /** As `GET /api/analyses` describes them. */
  settings?: Record<string, any>;
  [name: string]: unknown;
}

/** A result with its provenance and charts; tables and images have their own addresses. */
export interface Whole {
  id: string;
  name: string;
  analysis: string;
  title: string;
  model: string;
  corpus: string;
  split: string;
  created: string;
  command: string;
  tables: string[];
  findings: FindingCard[];
  question: string;
  method: string;
  figures: Figure[];
  tasks: string[];
  rows: Record<string, number>;
  provenance: Record<string, any>;
}

/** A word at every layer. */
export interface Word {
  path: [number, number][];
  others: [number, number][][];
  explained: [number, number];
  attended: Heads | null;
}

/** A word, punctuation apart, and how likely it is. */
export interface WordScore {
  word: string;
  logprob: number | null;
}

/** A sentence cut into words, as every analysis of a typed sentence counts them. */
export interface Words {
  words: string[];
}

/** A piece that a model would say. */
export interface lamina__web__api__behaviour__Said {
  piece: string;
  probability: number;
}

/** The model's answer and its quality. */
export interface lamina__web__api__questions__Said {
  answers: boolean;
  predicted: string;
  confidence: number | null;
  accepted: string[];
  right: boolean | null;
}

export interface Get {
  "/about": About;
  [address: `/models/${string}`]: ModelVerdict;
  "/passed-over": PassedOver[];
  "/theme": Theme;
  [address: `/overview/${string}`]: ModelOverview;
  [address: `/unmeasured/${string}`]: Unmeasured[];
  "/analyses": AnalysisCard[];
  "/questions/examples": Example[];
  "/questions/models": Answering[];
  [address: `/compare/models/${string}`]: Offer[];
  "/results": Summary[];
  [address: `/results/${string}`]: Whole;
  "/jobs": Progress[];
  [address: `/jobs/${string}`]: Progress;
}

export interface Post {
  "/lens": { takes: MarkedSentence; gives: Lens };
  "/lens/words": { takes: Plain; gives: Words };
  "/lens/word": { takes: OneWord; gives: Word };
  "/lens/neighbours": { takes: OneWord; gives: Neighbours };
  "/heads/atlas": { takes: AtlasWanted; gives: Atlas };
  "/heads/lines": { takes: LinesWanted; gives: Lines };
  "/heads/card": { takes: CardWanted; gives: CardOfHead };
  "/heads/examples": { takes: ExamplesWanted; gives: ExamplesOfHead };
  "/questions": { takes: Asked; gives: Answered };
  "/behaviour/pairs": { takes: TypedPair; gives: PairVerdict[] };
  "/behaviour/cloze": { takes: TypedCloze; gives: ClozeAnswer[] };
  "/behaviour/logit_lens": { takes: TypedLens; gives: LogitLens };
  "/interventions": { takes: SwitchedOff; gives: Changed };
  "/compare": { takes: Several; gives: Comparison };
  "/jobs": { takes: Wanted; gives: Progress };
}

export interface Delete {
  [address: `/jobs/${string}`]: Progress;
}
