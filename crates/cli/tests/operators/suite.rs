//! A family of cases: writes them as one batch, runs the program once, and compares every answer.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::rc::Rc;

use serde_json::{Map, Value as Json, json};
use warpfold_conformance::reference::array::Array;
use warpfold_conformance::reference::call::{self, Call, Options};
use warpfold_conformance::reference::dtype::Dtype;
use warpfold_conformance::reference::npy;
use warpfold_conformance::sample::is_sampled;

use crate::data::{self, Fill};
use crate::known;
use crate::program;

/// As many cases are all tried.
const FEW: usize = 60;

/// How many disagreements a failure shows; the rest stand in the file.
const SHOWN: usize = 25;

/// An input with the file that it will lie in.
#[derive(Debug)]
pub(crate) struct Stored {
    path: PathBuf,
    array: Array,
    /// Where it came from, for messages.
    fill: String,
}

struct Case {
    op: &'static str,
    inputs: Vec<Rc<Stored>>,
    options: Options,
    /// How many outputs it asks for, if not all.
    outputs: Option<usize>,
}

/// What tells one generated input from another.
type Key = (Dtype, Vec<usize>, Fill, u64);

/// A family of cases.
pub(crate) struct Suite {
    folder: PathBuf,
    inputs: BTreeMap<Key, Rc<Stored>>,
    num_files: usize,
    cases: Vec<Case>,
}

impl Suite {
    /// An empty family.
    pub(crate) fn new(name: &str) -> Self {
        Self { folder: program::folder(name), inputs: BTreeMap::new(), num_files: 0, cases: Vec::new() }
    }

    /// An input with generated contents; equal ones share a file.
    pub(crate) fn input(&mut self, dtype: Dtype, shape: &[usize], fill: Fill, seed: u64) -> Rc<Stored> {
        let key = (dtype, shape.to_vec(), fill, seed);
        if let Some(stored) = self.inputs.get(&key) {
            return Rc::clone(stored);
        }
        let stored = self.store(data::array(dtype, shape, fill, seed), &format!("{fill:?} {seed}"));
        self.inputs.insert(key, Rc::clone(&stored));
        stored
    }

    /// An input with contents of its own.
    pub(crate) fn store(&mut self, array: Array, fill: &str) -> Rc<Stored> {
        let path = self.folder.join(format!("in{}.npy", self.num_files));
        self.num_files += 1;
        Rc::new(Stored { path, array, fill: fill.to_owned() })
    }

    /// Adds a case; those of operators that the program does not have yet are left out.
    pub(crate) fn add(&mut self, op: &'static str, inputs: &[&Rc<Stored>], options: Options) {
        self.add_with_outputs(op, inputs, options, None);
    }

    /// Adds a case that asks for some of the outputs only.
    pub(crate) fn add_with_outputs(
        &mut self,
        op: &'static str,
        inputs: &[&Rc<Stored>],
        options: Options,
        outputs: Option<usize>,
    ) {
        if !known::NOT_YET.contains(&op) {
            let inputs = inputs.iter().map(|&i| Rc::clone(i)).collect();
            self.cases.push(Case { op, inputs, options, outputs });
        }
    }

    /// Runs the program on the cases and compares; on a third of them where there are many.
    ///
    /// # Panics
    ///
    /// If anything differs from the reference.
    #[track_caller]
    pub(crate) fn run(mut self) {
        if self.cases.is_empty() {
            return;
        }
        if self.cases.len() > FEW {
            // Types, axes and ways round come in turns, often of three.
            let mut cases = 0..;
            self.cases.retain(|_| cases.next().is_some_and(|i| is_sampled(i + i / 3 + i / 9)));
        }
        let inputs: BTreeMap<_, _> = self.cases.iter().flat_map(|c| &c.inputs).map(|i| (&i.path, &i.array)).collect();
        inputs.iter().for_each(|(path, array)| npy::write(path, array));
        let batch = self.folder.join("batch.jsonl");
        let mut text = String::new();
        for (i, case) in self.cases.iter().enumerate() {
            writeln!(text, "{}", self.line(i, case)).expect("a string takes text");
        }
        fs::write(&batch, text).expect("the batch can be written");
        let output = program::command().args(["run", "--batch"]).arg(&batch).output().expect("the program starts");
        let stdout = String::from_utf8(output.stdout).expect("the program writes UTF-8");
        let answers: Vec<&str> = stdout.lines().collect();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            answers.len(),
            self.cases.len(),
            "a line of result for each case; {}, stderr: {stderr}; last line: {:?}, of case {}",
            output.status,
            answers.last(),
            self.cases.get(answers.len()).map_or_else(String::new, |c| self.line(answers.len(), c).to_string()),
        );
        let verdicts = self.cases.iter().enumerate().map(|(i, case)| (case, self.verdict(i, case, answers[i])));
        let wrong: Vec<String> =
            verdicts.filter_map(|(case, v)| v.err().map(|reason| format!("{}: {reason}", describe(case)))).collect();
        self.report(&wrong);
        fs::remove_dir_all(&self.folder).expect("the folder can go");
    }

    #[track_caller]
    fn report(&self, wrong: &[String]) {
        if wrong.is_empty() {
            return;
        }
        let mut by_op = BTreeMap::new();
        for line in wrong {
            *by_op.entry(line.split(' ').next().unwrap_or_default()).or_insert(0) += 1;
        }
        let file = self.folder.join("disagreements.txt");
        fs::write(&file, wrong.join("\n") + "\n").expect("the report can be written");
        let shown = wrong[..wrong.len().min(SHOWN)].join("\n");
        let (len, all) = (wrong.len(), self.cases.len());
        panic!("{len} of {all} cases differ ({by_op:?}), all of them in {}:\n{shown}", file.display());
    }

    fn output(&self, case: usize, index: usize) -> PathBuf {
        self.folder.join(format!("out{case}_{index}.npy"))
    }

    /// How many outputs a case asks for.
    fn num_outputs(case: &Case) -> usize {
        let most = match case.op {
            "layer-norm" => 3,
            "topk" | "min-max" | "mean-var" | "rms-norm" | "cross-entropy" | "abs-max-scale" | "quantize" => 2,
            _ => 1,
        };
        case.outputs.unwrap_or(most)
    }

    /// The command as a line of the batch.
    fn line(&self, index: usize, case: &Case) -> Json {
        let inputs: Vec<_> = case.inputs.iter().map(|i| i.path.display().to_string()).collect();
        let outputs: Vec<_> =
            (0..Self::num_outputs(case)).map(|o| self.output(index, o).display().to_string()).collect();
        let mut line = options_as_json(&case.options);
        if case.inputs.iter().any(|i| Dtype::TINY_FLOATS.contains(&i.array.dtype)) {
            let names: Vec<_> = case.inputs.iter().map(|i| i.array.dtype.name()).collect();
            line.insert("input-dtype".to_owned(), if let [one] = names[..] { json!(one) } else { json!(names) });
        }
        line.insert("op".to_owned(), json!(case.op));
        let Options { scale_a, scale_b, scale_result, bias, .. } = case.options;
        let names = [(scale_a, "scale-a"), (scale_b, "scale-b"), (scale_result, "scale-result"), (bias, "bias")];
        let named: Vec<_> = names.into_iter().filter(|(is_given, _)| *is_given).map(|(_, name)| name).collect();
        let (inputs, others) = inputs.split_at(inputs.len() - named.len());
        for (name, path) in named.into_iter().zip(others) {
            line.insert(name.to_owned(), json!(path));
        }
        line.insert("inputs".to_owned(), json!(inputs));
        line.insert("outputs".to_owned(), json!(outputs));
        Json::Object(line)
    }

    /// Whether the program did what the reference says.
    fn verdict(&self, index: usize, case: &Case, line: &str) -> Result<(), String> {
        let answer: Json = serde_json::from_str(line).map_err(|error| format!("{error} in {line}"))?;
        let error = answer["error"].as_str().unwrap_or_default();
        let arrays: Vec<&Array> = case.inputs.iter().map(|i| &i.array).collect();
        let expected = call::expected(&Call { op: case.op, inputs: &arrays, options: &case.options });
        match (answer["ok"].as_bool(), expected) {
            (Some(false), Err(_)) if error.is_empty() || error.contains('\n') => {
                Err(format!("refused without a line that says why: {line}"))
            }
            (Some(false), Err(_)) => Ok(()),
            (Some(true), Err(refused)) => Err(format!("not refused ({})", refused.0)),
            (Some(false), Ok(_)) => Err(format!("refused: {error}")),
            (None, _) => Err(format!("no \"ok\" in {line}")),
            (Some(true), Ok(outputs)) => {
                for (o, expected) in outputs.iter().take(Self::num_outputs(case)).enumerate() {
                    let got = npy::read(&self.output(index, o), expected.dtypes[0])?;
                    expected.check(&got).map_err(|reason| format!("output {o} {reason}"))?;
                }
                Ok(())
            }
        }
    }
}

/// The options that a call gives, by their names on the command line.
fn options_as_json(options: &Options) -> Map<String, Json> {
    let mut map = Map::new();
    let mut set = |name: &str, value: Option<Json>| {
        if let Some(value) = value {
            map.insert(name.to_owned(), value);
        }
    };
    let flag = |is_set: bool| is_set.then_some(json!(true));
    set("axes", options.axes.as_ref().map(|a| json!(a)));
    set("keepdims", flag(options.keepdims));
    set("eps", options.eps.map(|e| json!(e)));
    set("last", flag(options.last));
    set("k", options.k.map(|k| json!(k)));
    set("exclusive", flag(options.exclusive));
    set("reverse", flag(options.reverse));
    set("dtype", options.dtype.map(|d| json!(d.name())));
    set("ignore-nan", flag(options.ignore_nan));
    set("bins", options.bins.map(|b| json!(b)));
    set("threshold", options.threshold.map(|t| json!(t)));
    set("ignore-index", options.ignore_index.map(|i| json!(i)));
    set("transpose", flag(options.transpose));
    set("ddof", (options.ddof > 0).then_some(json!(options.ddof)));
    set("beta", options.beta.map(|b| json!(b)));
    set("alpha", options.alpha.map(|a| json!(a)));
    set("transpose-a", flag(options.transpose_a));
    set("transpose-b", flag(options.transpose_b));
    set("activation", options.activation.as_ref().map(|name| json!(name)));
    set("stride", options.stride.as_ref().map(|s| json!(s)));
    set("padding", options.padding.as_ref().map(|p| json!(p)));
    set("dilation", options.dilation.as_ref().map(|d| json!(d)));
    set("groups", options.groups.map(|g| json!(g)));
    set("layout", options.layout.as_ref().map(|name| json!(name)));
    set("batch-invariant", flag(options.batch_invariant));
    map
}

/// Operator, inputs and options, for a message.
fn describe(case: &Case) -> String {
    let input = |i: &Rc<Stored>| format!("{} {:?} ({})", i.array.dtype.name(), i.array.shape, i.fill);
    let inputs: Vec<_> = case.inputs.iter().map(input).collect();
    let options = Json::Object(options_as_json(&case.options));
    format!("{} of {} with {options}", case.op, inputs.join(", "))
}
