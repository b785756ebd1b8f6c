//! Calls of tools: random tools and answers under the grammar of each format, read back.
#![cfg(feature = "grammar")]

use std::path::Path;

use serde_json::{Value, json};
use warpfold_engine::{Constraint, Decode, Next};
use warpfold_models::{Dialect, Grammar, Grammars, Piece, Thinking, Tokenizer, Tool, ToolChoice, ToolFormat, Turn};

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ (x >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}

fn tokenizer() -> Tokenizer {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/models/llama");
    Tokenizer::of_folder(&folder).expect("the fixture has a tokenizer")
}

/// The fixture's token that ends answers, and single bytes as tokens.
const EOS: u32 = 1;

fn schema(random: &mut Random, depth: usize) -> Value {
    match random.below(if depth == 0 { 5 } else { 7 }) {
        0 => json!({"type": "string", "maxLength": 6}),
        1 => json!({"type": "integer", "minimum": -99, "maximum": 9999}),
        2 => json!({"type": "boolean"}),
        3 => json!({"enum": ["red", "b\"lue", "</tool_call>", "[TOOL_CALLS]"]}),
        4 => json!({"type": "string", "enum": ["a", "b c", "é\n"]}),
        5 => json!({"type": "array", "items": schema(random, depth - 1), "maxItems": 2}),
        _ => object(random, depth - 1),
    }
}

fn object(random: &mut Random, depth: usize) -> Value {
    let names = ["city", "days", "x-y", "unit", "ключ"];
    let mut properties = serde_json::Map::new();
    for _ in 0..random.below(4) {
        properties.insert((*random.of(&names)).to_owned(), schema(random, depth));
    }
    let required: Vec<String> = properties.keys().filter(|_| random.below(2) == 0).cloned().collect();
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

/// Whether a value is of a schema of those that are made here.
fn fits(value: &Value, schema: &Value) -> bool {
    if let Some(all) = schema["enum"].as_array() {
        return all.contains(value);
    }
    match schema["type"].as_str() {
        Some("string") => value.as_str().is_some_and(|text| text.chars().count() <= 6),
        // JSON has one number for -0 and -0.0.
        Some("integer") => value.as_f64().is_some_and(|n| n.fract() == 0.0 && (-99.0..=9999.0).contains(&n)),
        Some("boolean") => value.is_boolean(),
        Some("array") => {
            value.as_array().is_some_and(|all| all.len() <= 2 && all.iter().all(|v| fits(v, &schema["items"])))
        }
        _ => value.as_object().is_some_and(|fields| {
            let required = schema["required"].as_array().expect("a list");
            required.iter().all(|name| fields.contains_key(name.as_str().expect("a name")))
                && fields.iter().all(|(name, value)| fits(value, &schema["properties"][name]))
        }),
    }
}

fn bytes_of(tokenizer: &Tokenizer, token: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    tokenizer.append(token, &mut bytes);
    bytes
}

/// An answer by a constraint: words that the model wants to say as far as they are allowed, and
/// then anything.
fn answer(
    random: &mut Random,
    tokenizer: &Tokenizer,
    mut constraint: Box<dyn Constraint>,
    wanted: &str,
) -> (String, bool) {
    let vocab = tokenizer.len();
    // Byte by byte, however a tokenizer would cut it.
    let of_byte =
        |byte: u8| (0..vocab as u32).find(|id| bytes_of(tokenizer, *id) == [byte]).expect("all bytes are tokens");
    let mut wanted = wanted.bytes().map(of_byte).collect::<Vec<_>>().into_iter();
    let mut bytes = Vec::new();
    for _ in 0..600 {
        if constraint.is_over() {
            return (String::from_utf8(bytes).expect("text"), true);
        }
        let Next::Tokens(mask) = constraint.next(vocab) else {
            panic!("the constraint gave up after {:?}", String::from_utf8_lossy(&bytes))
        };
        let may = |id: u32| mask[id as usize / 32] >> (id % 32) & 1 != 0;
        let all: Vec<u32> = (0..vocab as u32).filter(|id| may(*id)).collect();
        assert!(!all.is_empty());
        let token = wanted.next().filter(|id| may(*id));
        let token = match token {
            None if may(EOS) && random.below(3) > 0 => EOS,
            None => *random.of(&all),
            Some(token) => token,
        };
        if token == EOS {
            return (String::from_utf8(bytes).expect("text"), true);
        }
        constraint.push(token);
        tokenizer.append(token, &mut bytes);
    }
    (String::from_utf8_lossy(&bytes).into_owned(), false)
}

/// What pieces say, put together.
#[derive(Debug, Default, PartialEq)]
struct Read {
    content: String,
    reasoning: String,
    calls: Vec<(String, String)>,
}

fn read(dialect: &Dialect, turn: &Turn, thinking: Thinking, text: &str, cuts: &mut dyn FnMut() -> usize) -> Read {
    let mut splitter = dialect.splitter(turn, thinking);
    let mut pieces = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let mut len = cuts().clamp(1, rest.len());
        while !rest.is_char_boundary(len) {
            len += 1;
        }
        splitter.push(&rest[..len], &mut pieces);
        rest = &rest[len..];
    }
    splitter.finish(&mut pieces);
    let mut read = Read::default();
    for piece in pieces {
        match piece {
            Piece::Content(text) => read.content += &text,
            Piece::Reasoning(text) => read.reasoning += &text,
            Piece::Call { number, name } => {
                assert_eq!(number, read.calls.len());
                read.calls.push((name, String::new()));
            }
            Piece::Arguments { number, json } => read.calls[number].1 += &json,
        }
    }
    read
}

fn dialect(format: &'static ToolFormat, thinks: bool, tokenizer: &Tokenizer) -> Dialect {
    Dialect::new(if thinks { "<think></think>" } else { "" }, Some(tokenizer), Some(format))
}

/// One random case; returns how many calls there were.
fn one(seed: u64, tokenizer: &Tokenizer, grammars: &Grammars) -> usize {
    let mut random = Random(seed);
    let names = ToolFormat::names();
    let format = ToolFormat::named(names[random.below(names.len())]).expect("it is one");
    let thinks = random.below(3) == 0;
    let dialect = dialect(format, thinks, tokenizer);
    let names = ["get_weather", "get", "a-b.c", "search", "f1"];
    let first = random.below(names.len());
    let tools: Vec<Tool> = (0..1 + random.below(3))
        .map(|i| Tool {
            name: names[(first + i) % names.len()].to_owned(),
            parameters: object(&mut random, 2),
            is_strict: random.below(2) == 0,
        })
        .collect();
    let choice = match random.below(4) {
        0 => ToolChoice::Required,
        1 => ToolChoice::Named(random.of(&tools).name.clone()),
        _ => ToolChoice::Auto,
    };
    let content = (random.below(6) == 0).then(|| Grammar::Json(object(&mut random, 1)));
    let turn = Turn { tools, choice, is_single: random.below(3) == 0, content };
    let thinking = match format.name {
        "harmony" => Thinking::Maybe,
        _ if thinks => *random.of(&[Thinking::Maybe, Thinking::Begun]),
        _ => Thinking::Never,
    };
    let grammar = dialect.grammar(&turn, thinking).expect("tools have a grammar");
    let constraint = grammars.constraint(&grammar).unwrap_or_else(|error| panic!("{seed}: {error}\n{grammar:?}"));
    // What the model wants to say: thoughts, words, and the beginning of a call.
    let thought = match thinking {
        Thinking::Never => "",
        Thinking::Begun => "well <tool_call> {\"name\": \"x\n</think>\n\n",
        Thinking::Maybe if random.below(2) == 0 => "<think>\nhm [TOOL_CALLS]\n</think>\n\n",
        Thinking::Maybe => "",
    };
    let said = *random.of(&["", "Let me see.\n", "1 < 2 <tool {", "é\n\n"]);
    let call = *random.of(&["", "<tool_call>", "[TOOL_CALLS]", "{\"name\": \"", "[get_weather("]);
    let wanted = match format.name {
        // These cannot be said byte by byte.
        _ if tokenizer.id_of("<|channel|>").is_some() => said.to_owned(),
        "harmony" => {
            let thought = "<|channel|>analysis<|message|>hm <|en<|end|><|start|>assistant";
            let said = *random.of(&["<|channel|>final<|message|>So", "<|channel|>commentary to=functions.", ""]);
            format!("{}{said}", if random.below(2) == 0 { thought } else { "" })
        }
        _ => format!("{thought}{said}{call}"),
    };
    let (text, is_whole) = answer(&mut random, tokenizer, constraint, &wanted);

    let whole = read(&dialect, &turn, thinking, &text, &mut || usize::MAX);
    let parts = read(&dialect, &turn, thinking, &text, &mut || 1 + random.below(9));
    assert_eq!(whole, parts, "{seed}: cut otherwise: {text:?}");
    if !is_whole {
        return whole.calls.len();
    }
    for (name, arguments) in &whole.calls {
        let tool = turn.tools.iter().find(|tool| tool.name == *name).expect("a tool");
        let value: Value = serde_json::from_str(arguments).unwrap_or_else(|e| panic!("{seed}: {e}: {text:?}"));
        assert!(fits(&value, &tool.parameters), "{seed}: {value} is not of {}: {text:?}", tool.parameters);
        if let ToolChoice::Named(wanted) = &turn.choice {
            assert_eq!(name, wanted);
        }
    }
    assert!(!turn.is_single || whole.calls.len() <= 1, "{seed}: {text:?}");
    assert!(turn.choice == ToolChoice::Auto || !whole.calls.is_empty(), "{seed}: {text:?}");
    // No text is lost: all that is not of a call, and not space, comes back.
    let plain = |text: &str| text.split_whitespace().collect::<String>();
    if whole.calls.is_empty() {
        let mut said = plain(&text).replace("<think>", "").replacen("</think>", "", usize::from(thinks));
        if format.name == "harmony" {
            for channel in ["analysis", "commentary", "final"] {
                said = said.replace(&format!("<|channel|>{channel}<|message|>"), "");
            }
            said = said.replace("<|end|><|start|>assistant", "");
        }
        assert_eq!(plain(&whole.reasoning) + &plain(&whole.content), said, "{seed}: {text:?}");
        if let Some(Grammar::Json(_)) = turn.content {
            serde_json::from_str::<Value>(&whole.content).unwrap_or_else(|e| panic!("{seed}: {e}: {text:?}"));
        }
    } else {
        assert!(plain(&text).contains(&plain(&whole.content)), "{seed}: {text:?}");
    }
    whole.calls.len()
}

#[test]
fn every_call_is_of_its_tool_and_no_text_is_lost() {
    let tokenizer = tokenizer();
    let grammars = Grammars::of(&tokenizer, &[EOS]).expect("the vocabulary has its end");
    let num = if std::env::var_os("WARPFOLD_ALL_TESTS").is_some() { 10_000 } else { 400 };
    let num_calls: usize = (0..num).map(|seed| one(seed, &tokenizer, &grammars)).sum();
    assert!(num_calls > num as usize / 3, "{num_calls} calls of {num} answers");
}

#[test]
fn marks_of_channels_that_are_special_tokens_are_no_text() {
    let folder = std::env::temp_dir().join(format!("warpfold-marks-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let text = std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/models/llama/tokenizer.json"));
    let mut file: Value = serde_json::from_slice(&text.expect("the fixture")).expect("JSON");
    let first = tokenizer().len();
    let marks = ["channel", "message", "start", "end", "call", "return", "constrain"].map(|name| format!("<|{name}|>"));
    for (i, mark) in marks.iter().enumerate() {
        let token = json!({"id": first + i, "content": mark, "special": true, "single_word": false, "lstrip": false,
            "rstrip": false, "normalized": false});
        file["added_tokens"].as_array_mut().expect("a list").push(token);
    }
    std::fs::write(folder.join("tokenizer.json"), file.to_string()).expect("a file");
    let tokenizer = Tokenizer::of_folder(&folder).expect("it has some tokens more");
    std::fs::remove_dir_all(&folder).expect("it was there");
    let grammars = Grammars::of(&tokenizer, &[EOS]).expect("the vocabulary has its end");
    let harmony = ToolFormat::named("harmony").expect("it is one");
    let dialect = Dialect::new("", Some(&tokenizer), Some(harmony));
    let turn = Turn { choice: ToolChoice::Required, ..weather() };
    let grammar = dialect.grammar(&turn, Thinking::Maybe).expect("tools have a grammar");
    let mut first_of = grammars.constraint(&grammar).expect("it is one");
    let Next::Tokens(mask) = first_of.next(tokenizer.len()) else { panic!("something may come") };
    let may: Vec<usize> = (0..tokenizer.len()).filter(|id| mask[id / 32] >> (id % 32) & 1 != 0).collect();
    assert_eq!(may, [first], "an answer begins with the mark of a channel");
    let num_calls: usize = (0..100).map(|seed| one(seed, &tokenizer, &grammars)).sum();
    assert!(num_calls > 20, "{num_calls} calls");
}

#[track_caller]
fn reads(template: &str, turn: &Turn, thinking: Thinking, text: &str, expected: &Read) {
    let dialect = Dialect::new(template, None, None);
    for len in [1, 7, usize::MAX] {
        assert_eq!(read(&dialect, turn, thinking, text, &mut || len), *expected, "in parts of {len}");
    }
}

fn weather() -> Turn {
    let parameters = json!({"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}});
    Turn { tools: vec![Tool { name: "weather".to_owned(), parameters, is_strict: false }], ..Turn::default() }
}

fn said(content: &str, reasoning: &str, calls: &[(&str, &str)]) -> Read {
    let calls = calls.iter().map(|(name, arguments)| ((*name).to_owned(), (*arguments).to_owned())).collect();
    Read { content: content.to_owned(), reasoning: reasoning.to_owned(), calls }
}

#[test]
fn each_family_is_read_in_its_own_format() {
    let paris = [("weather", "{\"city\": \"Paris\"}")];
    let hermes =
        "Let me see.\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Paris\"}}\n</tool_call>";
    let signs = "{% for tool in tools %}<tool_call>";
    reads(signs, &weather(), Thinking::Never, hermes, &said("Let me see.", "", &paris));
    let two = format!("{hermes}{}", &hermes["Let me see.".len()..]);
    reads(signs, &weather(), Thinking::Never, &two, &said("Let me see.", "", &[paris[0], paris[0]]));
    let thought = format!("<think>\nhm\n</think>\n\n{hermes}");
    reads(
        &format!("{signs}<think></think>"),
        &weather(),
        Thinking::Maybe,
        &thought,
        &said("Let me see.", "hm", &paris),
    );
    let llama = "{\"name\": \"weather\", \"parameters\": {\"city\": \"Paris\"}}";
    reads("tools \"parameters\": ipython", &weather(), Thinking::Never, llama, &said("", "", &paris));
    let mistral = "[TOOL_CALLS][{\"name\": \"weather\", \"arguments\": {\"city\": \"Paris\"}}]";
    reads("[TOOL_CALLS]", &weather(), Thinking::Never, mistral, &said("", "", &paris));
    reads("[TOOL_CALLS] [", &weather(), Thinking::Never, &mistral.replace("S][", "S] ["), &said("", "", &paris));
    let named = "[TOOL_CALLS]weather[ARGS]{\"city\": \"Paris\"}";
    reads("[TOOL_CALLS] [ARGS]", &weather(), Thinking::Never, named, &said("", "", &paris));
    let tags = "<tool_call>\n<function=weather>\n<parameter=city>\nSay \"Paris\"\n</parameter>\n<parameter=days>\n3\n\
                </parameter>\n</function>\n</tool_call>";
    let both = [("weather", "{\"city\": \"Say \\\"Paris\\\"\", \"days\": 3}")];
    reads("<function= <parameter=", &weather(), Thinking::Never, tags, &said("", "", &both));
    let signs = "tools [func_name1(params_name1=";
    let python = "[weather(city='Say \"Paris\"', days=3), weather(city=\"Paris\"), weather()]";
    let three = [both[0], paris[0], ("weather", "{}")];
    reads(signs, &weather(), Thinking::Never, python, &said("", "", &three));
    let cut = [("weather", "{\"city\": \"it's 3, (")];
    reads(signs, &weather(), Thinking::Never, "[weather(city='it\\'s 3, (", &said("", "", &cut));
}

#[test]
fn answers_in_channels_are_read_by_their_messages() {
    let paris = [("weather", "{\"city\": \"Par<|end|>is\"}")];
    let signs = "tools <|start|> <|channel|> <|message|>";
    let (next, end) = ("<|start|>assistant<|channel|>", "<|end|>");
    let thought = format!("<|channel|>analysis<|message|>hm < 2{end}{next}");
    let call = "commentary to=functions.weather <|constrain|>json<|message|>{\"city\": \"Par<|end|>is\"}";
    let turn = weather();
    reads(signs, &turn, Thinking::Maybe, &format!("{thought}final<|message|>So"), &said("So", "hm < 2", &[]));
    reads(signs, &turn, Thinking::Maybe, &format!("{thought}{call}<|call|>"), &said("", "hm < 2", &paris));
    let spoken = format!("{thought}commentary<|message|>Let me see.{end}{next}{call}");
    reads(signs, &turn, Thinking::Maybe, &spoken, &said("Let me see.", "hm < 2", &paris));
    // As part of the content, where reasoning is not to stand apart.
    reads(signs, &turn, Thinking::Never, &format!("{thought}final<|message|>So"), &said("hm < 2So", "", &[]));
    for text in ["<|channel|>final", "no channel <|end|>", "<|channel|>commentary to=functions.other json<|message|>{}"]
    {
        reads(signs, &turn, Thinking::Maybe, text, &said(text, "", &[]));
    }
    let dialect = Dialect::new(signs, None, None);
    assert_eq!((dialect.format().name, dialect.is_told_by_template()), ("harmony", true));
    assert_eq!(dialect.grammar(&Turn::default(), Thinking::Maybe), None);
}

#[test]
fn what_is_no_call_stays_as_it_is() {
    let (plain, signs) = (Turn::default(), "{{ tools }}<tool_call>");
    for text in ["  a\n<tool_call>\n{}", "</think>", "\n", "x <tool_call"] {
        reads(signs, &plain, Thinking::Never, text, &said(text, "", &[]));
    }
    for text in
        ["  a < b\n", "\n\n", "<tool_cal", "<tool_call>\n{\"name\": \"weath", "<tool_call>\n{\"name\": \"other\", \""]
    {
        reads(signs, &weather(), Thinking::Never, text, &said(text, "", &[]));
    }
    for text in ["  [1, 2]", "[weather, or not]", "[weathe", " [other(a=1)]"] {
        reads("tools func_name1(params_name1=", &weather(), Thinking::Never, text, &said(text, "", &[]));
    }
    reads("<think></think>", &plain, Thinking::Maybe, "<think>\nwell", &said("", "well", &[]));
    reads("<think></think>", &plain, Thinking::Begun, "well\n</think>\n\n a", &said("a", "well", &[]));
    reads("<think></think>", &plain, Thinking::Maybe, "no <think>", &said("no <think>", "", &[]));
}
