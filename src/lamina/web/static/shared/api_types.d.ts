// Generated from the API's description by `python -m lamina.web.types`; do not edit.

/** What every page needs. */
export interface AboutServer {
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

/** One analysis of several models in one chart: all on the same axes. */
export interface AnalysisCurves {
  analysis: string;
  title: string;
  figure: FigureCard;
}

/** An answer, the context with its roles, and the tokens at every layer. */
export interface AnsweredQuestion {
  model: string;
  answer: ModelAnswer;
  text: ContextPart[];
  map: TokenMap;
  notes: string[];
  phases: string | null;
}

/** A model that lamina fine-tuned. */
export interface AnsweringModel {
  name: string;
  task: string;
  answers: boolean;
  base: string | null;
}

/** An error, in one readable sentence. */
export interface ApiError {
  error: string;
}

/** Which model, on which sentence. */
export interface AtlasRequest {
  model: string;
  sentence: string;
  /** Attention as it is, or times the norm of the value it moves, rows summing to 1 again. */
  weights?: "attention" | "norm";
}

/** Words or tokens, and the links between them. */
export interface AttentionLines {
  tokens: string[];
  sinks: boolean[];
  words: number[];
  heads: HeadLinks[];
}

/** The probes' answer for one target; the label that the last probe finds most probable comes first. */
export interface Belief {
  task: string;
  spans: [number, number][];
  labels: LabelBelief[];
  leads: number[];
  decided: number | null;
}

/** What was measured of one side of a model. */
export interface ChapterOfModel {
  name: string;
  title: string;
  question: string;
  results: ResultSummary[];
}

/** One thing that was tried on a model. */
export interface CheckCard {
  name: string;
  verdict: string;
  message: string;
}

/** What one model says in a gap. */
export interface ClozeAnswer {
  model: string;
  kind: "causal" | "masked";
  sees_after: boolean;
  top: TokenGuess[];
  candidates: RatedCandidate[];
}

/** What cannot be compared, and why. */
export interface ComparisonGap {
  what: string;
  why: string;
}

/** A model that can be compared with the baseline, or the reason why not. */
export interface ComparisonOffer {
  name: string;
  title: string;
  twin: boolean;
  shares: string[];
  why: string;
}

/** Models to compare; the first is the baseline. `NAME (random)` is a model's twin with random weights. */
export interface ComparisonRequest {
  models: string[];
}

/** A model that may be loaded from now on. */
export interface ConfirmedModel {
  model: string;
  /** Of an adapter: the base, as it was shown. */
  base?: string | null;
}

/** A word of the context, or the text between two words. */
export interface ContextPart {
  text: string;
  sentence: number;
  support: boolean;
  gold: boolean;
  predicted: boolean;
}

/** What is saved of two models, or what would measure it. */
export interface CorrespondenceAnswer {
  correspondence: ModelCorrespondence | null;
  missing: MissingResult | null;
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
  status: "clear" | "open" | "null" | "untested" | "missing";
  needs: string[];
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
  examples: HeadExampleCard[];
  targets: number;
  hits: number;
  misses: HeadMissCard[];
  to_sinks: number;
}

/** One chart: a Vega-Lite specification, and the same in words. */
export interface FigureCard {
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

/** A table as text. */
export interface GivenTable {
  name: string;
  text: string;
}

/** What one layer says in the place of one token. */
export interface GridCell {
  top: TokenGuess[];
  actual: number | null;
  kl: number;
}

export interface HTTPValidationError {
  detail?: ValidationError[];
}

/** All heads, by every available measure. */
export interface HeadAtlas {
  layers: number;
  heads: number;
  tokens: number;
  measures: HeadMeasure[];
  groups: MeasureGroup[];
  outstanding: OutstandingHead[];
  sources: SourceResult[];
  missing: string[];
}

/** What saved results say about one head; lists are empty if the analysis was not run. */
export interface HeadCard {
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
  sources: SourceResult[];
  missing: string[];
}

/** A sentence of the corpus, and the head's strongest link in it. */
export interface HeadExampleCard {
  id: string;
  words: string[];
  source: number;
  target: number;
  weight: number;
  relation: string;
}

/** Which head of which model, and examples of what. */
export interface HeadExamplesRequest {
  model: string;
  /** LAYER-HEAD, from 1. */
  head: string;
  /** Attention as it is, or times the norm of the value it moves, rows summing to 1 again. */
  weights?: "attention" | "norm";
  /** A dependency that the head is asked for; empty for what it is known for. */
  relation?: string;
}

/** The strongest links of one head: `counts[i]` of them start at unit i, the strongest first. */
export interface HeadLinks {
  head: string;
  counts: number[];
  to: number[];
  weight: number[];
  rest: number[];
  to_sinks: number;
}

/** A head of the first model, and the head of the second that attends most alike. */
export interface HeadMatchCard {
  head: string;
  match: string;
  overlap: number;
  others: number;
  p: number | null;
  agrees: boolean;
  mutual: boolean;
}

/** One number per head; a category if `names` is not empty. */
export interface HeadMeasure {
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
export interface HeadMissCard {
  id: string;
  words: string[];
  word: number;
  chosen: number;
  right: number;
  weight: number;
  right_weight: number;
  relation: string;
}

/** Which head of which model. */
export interface HeadRequest {
  model: string;
  /** LAYER-HEAD, from 1. */
  head: string;
  /** Attention as it is, or times the norm of the value it moves, rows summing to 1 again. */
  weights?: "attention" | "norm";
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

/** A sentence with and without the change. */
export interface Intervention {
  words: string[];
  units: string[];
  tokens: number;
  before: ModelReading;
  after: ModelReading;
}

/** A sentence, and the parts of the model that are switched off. */
export interface InterventionRequest {
  sentence: string;
  model: string;
  marked?: MarkedSpan[];
  heads?: string[];
  layers?: number[];
  how?: "zero" | "mean";
  question?: string;
  linked?: string[];
  /** Attention as it is, or times the norm of the value it moves, rows summing to 1 again. */
  weights?: "attention" | "norm";
  top?: number;
}

/** What a computation would take on this machine. */
export interface JobEstimate {
  state: "waiting" | "trying" | "known" | "failed" | "off";
  seconds: number | null;
  memory: number | null;
  why: string;
}

/** A computation and its progress. */
export interface JobProgress {
  id: string;
  state: "queued" | "running" | "done" | "failed" | "cancelled";
  command: string;
  what: string;
  done: number;
  total: number | null;
  message: string;
  elapsed: number;
  estimate: number | null;
  result: ResultSummary | null;
}

/** What to compute: the same table as `lamina run` reads, its inputs under the names of the analysis. */
export interface JobRequest {
  analysis: string;
  model: string;
  /** A name, or a table with `name` and data options; the server's own by default. */
  data?: string | Record<string, any>;
  /** As `GET /api/analyses` describes them. */
  settings?: Record<string, any>;
  [name: string]: unknown;
}

/** A table that jobs can read. */
export interface KeptTable {
  name: string;
  rows: number;
  columns: TableColumn[];
}

/** One label's probability under the probes P(0)..P(L). */
export interface LabelBelief {
  label: string;
  probabilities: number[];
}

/** What saved results say about one layer. */
export interface LayerEntry {
  layer: number;
  layers: number;
  numbers: LayerNumber[];
  heads: RoleOfHead[];
  findings: FindingCard[];
}

/** One number of a layer, beside those of the other layers. */
export interface LayerNumber {
  analysis: string;
  title: string;
  result: string;
  series: string;
  value: number;
  low: number | null;
  high: number | null;
  rank: number;
  of: number;
}

/** Which layer of which model; 0 is the embedding layer. */
export interface LayerRequest {
  model: string;
  layer: number;
}

/** A text, and the model whose layers are put through its head. */
export interface LensText {
  model: string;
  text: string;
  top?: number;
}

/** Which heads, on which sentence. */
export interface LinesRequest {
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

/** What the map of one layer shows, and what it leaves out. */
export interface MapLayer {
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

/** A token, the same at every layer. */
export interface MapToken {
  word: string;
  role: string;
  roles: string[];
  sentence: number;
  question: boolean;
  support: boolean;
  gold: boolean;
  predicted: boolean;
}

/** How one kind of thing is drawn. */
export interface MarkStyle {
  name: string;
  short: string;
  colour: string;
  fill: string;
  shape: string;
}

/** Words that are asked about; a second span for tasks of pairs. Both ends are included. */
export interface MarkedSpan {
  task: string;
  first: number;
  last: number;
  first2?: number | null;
  last2?: number | null;
}

/** Measures of one source. */
export interface MeasureGroup {
  source: string;
  title: string;
}

/** An analysis that was not run for a model, and what it would take. */
export interface MissingAnalysis {
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

/** What one of the models lacks to be compared with the others, and what it would take. */
export interface MissingResult {
  model: string;
  analysis: string;
  title: string;
  wanted: Record<string, any>;
  state: "waiting" | "trying" | "known" | "failed" | "off";
  seconds: number | null;
  why: string;
}

/** The model's answer and its quality. */
export interface ModelAnswer {
  answers: boolean;
  predicted: string;
  confidence: number | null;
  accepted: string[];
  right: boolean | null;
}

/** An available model. */
export interface ModelCard {
  name: string;
  title: string;
  loaded: boolean;
  finetuned: boolean;
  trouble: string | null;
  unconfirmed: boolean;
  waiting: number;
  training: string | null;
  step: number | null;
}

/** What the saved results say about several models. */
export interface ModelComparison {
  models: string[];
  shapes: [number, number][];
  scores: ModelScore[];
  differences: ScoreDifference[];
  curves: AnalysisCurves[];
  figures: FigureCard[];
  findings: FindingCard[];
  layers: TaskLayer[];
  heads_of: string[];
  by_head: string[];
  not_compared: ComparisonGap[];
  diff: ResultSummary | null;
}

/** Which layers and heads of two models correspond, by the newest `correspondence` result of them. */
export interface ModelCorrespondence {
  models: [string, string];
  cka: (number | null)[][];
  twin: (number | null)[][];
  nearest: boolean[][];
  heads: HeadMatchCard[];
  findings: FindingCard[];
  directed: boolean;
  corpus: string;
  texts: number;
  words: number;
}

/** What was measured of a model. */
export interface ModelOverview {
  model: string;
  paragraph: PlainFinding[];
  findings: OverviewFinding[];
  glance: FigureCard | null;
  captions: string[];
  chapters: ChapterOfModel[];
  report: boolean;
}

/** A model at work. */
export interface ModelQueue {
  model: string;
  waiting: number;
}

/** What the model makes of the sentence. */
export interface ModelReading {
  beliefs: Belief[];
  measures: HeadMeasure[];
  links: HeadLinks[];
  guesses: TokenGuess[] | null;
  answer: SpanAnswer | null;
}

/** The score of one model at one task; null where it is not available. */
export interface ModelScore {
  analysis: string;
  task: string;
  title: string;
  metric: string;
  statistic: "score_full" | "score_best_layer" | "items" | "value";
  model: string;
  value: number | null;
  low: number | null;
  high: number | null;
  reason: string;
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
export interface NearestWord {
  word: string;
  sentence: string;
  similarity: number;
}

/** The neighbours of some words, in the order asked for. */
export interface NearestWords {
  corpus: string;
  sentences: number;
  words: number;
  neighbours: WordNeighbours[];
}

/** A head that stands out on the sentence, and by what. */
export interface OutstandingHead {
  head: string;
  why: string;
  value: number;
}

/** A finding, and the result that it comes from. */
export interface OverviewFinding {
  text: string;
  status: "clear" | "null" | "open" | "untested";
  weight?: number;
  result: string;
  title: string;
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

/** A sentence of the paragraph: `text` has the test behind it. */
export interface PlainFinding {
  text: string;
  status: "clear" | "null" | "open" | "untested";
  weight?: number;
  plain: string;
}

/** An example, or a question about a context. */
export interface QuestionRequest {
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

/** A candidate in the gap. */
export interface RatedCandidate {
  word: string;
  logprob: number;
  pieces: number;
  rank: number;
}

/** Who waits for what, and how long at most. */
export interface RequestQueue {
  models: ModelQueue[];
  most: number;
  answer_seconds: number;
}

/** A result with its provenance and charts; tables and images have their own addresses. */
export interface ResultDetails {
  id: string;
  name: string;
  analysis: string;
  title: string;
  model: string;
  corpus: string;
  split: string;
  created: string;
  sample: string;
  partial: string;
  command: string;
  tables: string[];
  findings: FindingCard[];
  question: string;
  method: string;
  figures: FigureCard[];
  tasks: string[];
  rows: Record<string, number>;
  provenance: Record<string, any>;
}

/** A result in the list. */
export interface ResultSummary {
  id: string;
  name: string;
  analysis: string;
  title: string;
  model: string;
  corpus: string;
  split: string;
  created: string;
  sample: string;
  partial: string;
  command: string;
  tables: string[];
  findings: FindingCard[];
}

/** What a head does. */
export interface RoleOfHead {
  head: string;
  role: string;
  what: string;
  named: boolean;
}

/** A model's score minus the baseline's. */
export interface ScoreDifference {
  analysis: string;
  task: string;
  title: string;
  metric: string;
  statistic: "score_full" | "score_best_layer" | "items" | "value";
  model: string;
  value: number | null;
  low: number | null;
  high: number | null;
  reason: string;
  p: number | null;
  paired: boolean;
}

/** Where a search leads. */
export interface SearchHit {
  kind: "head" | "layer" | "task" | "word";
  title: string;
  about: string;
  path: string;
  query: Record<string, string>;
}

/** Every word at every layer, and the attention between words. */
export interface SentenceReading {
  places: [number, number][][];
  explained: [number, number];
  attention: WordAttention | null;
}

/** A sentence and a model. */
export interface SentenceRequest {
  sentence: string;
  model: string;
}

/** How likely one sentence is. */
export interface SentenceScore {
  logprob: number;
  per_token: number;
  pieces: number;
  words: WordScore[];
}

/** A sentence, whatever the model. */
export interface SentenceText {
  sentence: string;
}

/** A sentence with the probes' answers. */
export interface SentenceView {
  words: string[];
  tokens: number;
  layers: number;
  tasks: TaskCard[];
  seeds: number;
  margin: number;
  beliefs: Belief[];
  interesting: number;
}

/** A sentence cut into words, as every analysis of a typed sentence counts them. */
export interface SentenceWords {
  words: string[];
}

/** A saved result that numbers come from. */
export interface SourceResult {
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

/** A story that no model was fine-tuned on, with its answer. */
export interface StoryExample {
  id: string;
  title: string;
  question: string;
  context: string;
  answer: string;
}

/** A model of a result folder, before it is loaded. */
export interface StrangeModel {
  name: string;
  folder: string;
  base: string | null;
  size: number;
}

/** What one table of a result holds. */
export interface TableCard {
  rows: string;
  columns: string[];
  optional: boolean;
  format: "csv" | "parquet";
}

/** One column of a table. */
export interface TableColumn {
  name: string;
  looks_like: "text" | "labels" | "values" | "ids" | "other";
  values: number;
  examples: string[];
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

/** What is known of one task. */
export interface TaskEntry {
  task: string;
  title: string;
  about: string;
  results: TaskOfModel[];
  findings: FindingCard[];
  right: TaskExample[];
  wrong: TaskExample[];
  traced: number;
  traced_right: number;
}

/** One target of a task, as the probes of the first and of all layers read it. */
export interface TaskExample {
  words: string[];
  spans: [number, number][];
  label: string;
  first: number;
  last: number;
  rival: string;
  rival_last: number;
}

/** A layer that a task is read from. */
export interface TaskLayer {
  task: string;
  model: string;
  layer: number;
  value: number;
  low: number;
  high: number;
  among_best: boolean;
}

/** A model's result with the task in it; charts of the task alone come from `GET /api/results/ID?task=`. */
export interface TaskOfModel {
  model: string;
  analysis: string;
  title: string;
  result: string;
  best: string;
}

/** Which task, of which model. */
export interface TaskRequest {
  model: string;
  task: string;
}

/** Names, colours and shapes, in the order of legends. */
export interface Theme {
  behaviours: MarkStyle[];
  roles: MarkStyle[];
  rarest: string[];
  plain: string;
  hues: number;
  dark: Record<string, string>;
}

/** A token that a model would say. */
export interface TokenGuess {
  piece: string;
  probability: number;
}

/** The tokens of one question at every layer. */
export interface TokenMap {
  tokens: MapToken[];
  positions: ([number, number] | null)[][];
  clusters: number[][];
  layers: MapLayer[];
  drawn: number;
}

/** A sentence with the spans that are asked about. */
export interface TracedSentence {
  sentence: string;
  model: string;
  marked?: MarkedSpan[];
}

/** A text with one gap, written [MASK], [Y] or ___, and the models that are asked. */
export interface TypedCloze {
  models: string[];
  text: string;
  candidates?: string[];
  top?: number;
}

/** Two sentences, the good one first, and the models that are asked. */
export interface TypedPair {
  models: string[];
  good: string;
  bad: string;
  masking?: "piece" | "word";
}

/** A folder that looks like a result and is not listed. */
export interface UnlistedFolderCard {
  name: string;
  why: string;
}

export interface ValidationError {
  loc: (string | number)[];
  msg: string;
  type: string;
  input?: any;
  ctx?: Record<string, any>;
}

/** Attention between words, by head; to a word itself and to sinks it is left out. */
export interface WordAttention {
  blocks: number;
  heads: number;
  incoming: WordPartners;
  outgoing: WordPartners;
  sinks: number[];
  to_sinks: number[];
}

/** At each layer the words nearest by cosine, the nearest first. */
export interface WordNeighbours {
  word: number;
  layers: NearestWord[][];
}

/** For each word and head (the heads of block 1 first) the other word with the largest weight. */
export interface WordPartners {
  weight: number[][];
  word: number[][];
}

/** A word, punctuation apart, and how likely it is. */
export interface WordScore {
  word: string;
  logprob: number | null;
}

/** Some words of a sentence. */
export interface WordsRequest {
  sentence: string;
  model: string;
  words: number[];
}

export interface Get {
  "/about": AboutServer;
  "/queue": RequestQueue;
  [address: `/strange-models/${string}`]: StrangeModel;
  [address: `/models/${string}`]: ModelVerdict;
  "/passed-over": UnlistedFolderCard[];
  "/theme": Theme;
  [address: `/overview/${string}`]: ModelOverview;
  [address: `/unmeasured/${string}`]: MissingAnalysis[];
  "/analyses": AnalysisCard[];
  "/questions/examples": StoryExample[];
  "/questions/models": AnsweringModel[];
  [address: `/compare/models/${string}`]: ComparisonOffer[];
  "/results": ResultSummary[];
  [address: `/results/${string}`]: ResultDetails;
  "/search": SearchHit[];
  "/jobs": JobProgress[];
  [address: `/jobs/${string}`]: JobProgress;
}

export interface Post {
  "/strange-models": { takes: ConfirmedModel; gives: StrangeModel };
  "/lens": { takes: TracedSentence; gives: SentenceView };
  "/lens/words": { takes: SentenceText; gives: SentenceWords };
  "/lens/reading": { takes: SentenceRequest; gives: SentenceReading };
  "/lens/neighbours": { takes: WordsRequest; gives: NearestWords };
  "/heads/atlas": { takes: AtlasRequest; gives: HeadAtlas };
  "/heads/lines": { takes: LinesRequest; gives: AttentionLines };
  "/heads/card": { takes: HeadRequest; gives: HeadCard };
  "/heads/examples": { takes: HeadExamplesRequest; gives: ExamplesOfHead };
  "/questions": { takes: QuestionRequest; gives: AnsweredQuestion };
  "/behaviour/pairs": { takes: TypedPair; gives: PairVerdict[] };
  "/behaviour/cloze": { takes: TypedCloze; gives: ClozeAnswer[] };
  "/behaviour/logit_lens": { takes: LensText; gives: LogitLens };
  "/interventions": { takes: InterventionRequest; gives: Intervention };
  "/compare": { takes: ComparisonRequest; gives: ModelComparison };
  "/compare/missing": { takes: ComparisonRequest; gives: MissingResult[] };
  "/compare/correspondence": { takes: ComparisonRequest; gives: CorrespondenceAnswer };
  "/layer": { takes: LayerRequest; gives: LayerEntry };
  "/task": { takes: TaskRequest; gives: TaskEntry };
  "/jobs": { takes: JobRequest; gives: JobProgress };
  "/tables": { takes: GivenTable; gives: KeptTable };
  "/tables/estimate": { takes: JobRequest; gives: JobEstimate };
}

export interface Delete {
  [address: `/jobs/${string}`]: JobProgress;
}
