//! The formats in which models write calls of tools: a table.
//!
//! An answer with calls is `text trigger first NAME middle ARGUMENTS close`, then for each further
//! call `next NAME middle ARGUMENTS close`, then `end`. A row says what stands in these places, and
//! nothing else does: answers are generated under the row and read by it.

/// A format of calls. Names are those of vLLM's parsers where it has them.
#[derive(Debug, PartialEq, Eq)]
pub struct ToolFormat {
    /// Name of the format.
    pub name: &'static str,
    /// Text that starts the first call, and does not occur before it.
    pub(super) trigger: &'static str,
    /// Calls come only at the start of an answer, and text never begins with the trigger.
    pub(super) at_start: bool,
    pub(super) first: &'static str,
    pub(super) middle: &'static str,
    pub(super) arguments: Arguments,
    pub(super) close: &'static str,
    pub(super) next: &'static str,
    pub(super) end: &'static str,
    /// Form of the ids of calls, which some templates restrict.
    pub(super) ids: Ids,
    /// Substrings that identify a template of this format.
    signs: &'static [&'static str],
}

/// Encoding of arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arguments {
    /// A JSON object.
    Json,
    /// `<parameter=NAME>\nVALUE\n</parameter>\n` for each of them; texts stand as they are.
    Tags,
    /// `NAME=VALUE` as Python writes them, with `, ` between.
    Python,
    /// A JSON object that is a message in a channel, as all of the answer is.
    Channels,
}

/// Form of the ids of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ids {
    /// `call_` and 24 letters and digits, as OpenAI's.
    Long,
    /// Nine letters and digits, as Mistral's templates demand.
    Nine,
}

/// All formats. The first row whose signs a template has is its format.
pub(super) const FORMATS: [ToolFormat; 8] = [
    ToolFormat {
        name: "harmony",
        trigger: "<|channel|>commentary to=functions.",
        at_start: false,
        first: "",
        middle: " <|constrain|>json<|message|>",
        arguments: Arguments::Channels,
        close: "",
        next: "",
        end: "",
        ids: Ids::Long,
        signs: &["<|channel|>", "<|message|>", "<|start|>"],
    },
    ToolFormat {
        name: "qwen3_coder",
        trigger: "<tool_call>",
        at_start: false,
        first: "\n<function=",
        middle: ">\n",
        arguments: Arguments::Tags,
        close: "</function>\n</tool_call>",
        next: "\n<tool_call>\n<function=",
        end: "",
        ids: Ids::Long,
        signs: &["<function=", "<parameter="],
    },
    HERMES,
    ToolFormat {
        name: "mistral_args",
        trigger: "[TOOL_CALLS]",
        at_start: false,
        first: "",
        middle: "[ARGS]",
        arguments: Arguments::Json,
        close: "",
        next: "[TOOL_CALLS]",
        end: "",
        ids: Ids::Nine,
        signs: &["[TOOL_CALLS]", "[ARGS]"],
    },
    ToolFormat {
        name: "mistral_spaced",
        trigger: "[TOOL_CALLS]",
        at_start: false,
        first: " [{\"name\": \"",
        middle: "\", \"arguments\": ",
        arguments: Arguments::Json,
        close: "}",
        next: ", {\"name\": \"",
        end: "]",
        ids: Ids::Nine,
        signs: &["[TOOL_CALLS] ["],
    },
    ToolFormat {
        name: "mistral",
        trigger: "[TOOL_CALLS]",
        at_start: false,
        first: "[{\"name\": \"",
        middle: "\", \"arguments\": ",
        arguments: Arguments::Json,
        close: "}",
        next: ", {\"name\": \"",
        end: "]",
        ids: Ids::Nine,
        signs: &["[TOOL_CALLS]"],
    },
    ToolFormat {
        name: "pythonic",
        trigger: "[",
        at_start: true,
        first: "",
        middle: "(",
        arguments: Arguments::Python,
        close: ")",
        next: ", ",
        end: "]",
        ids: Ids::Long,
        signs: &["tools", "func_name1(params_name1="],
    },
    ToolFormat {
        name: "llama3_json",
        trigger: "{\"name\": \"",
        at_start: true,
        first: "",
        middle: "\", \"parameters\": ",
        arguments: Arguments::Json,
        close: "}",
        next: "; {\"name\": \"",
        end: "",
        ids: Ids::Long,
        signs: &["tools", "\"parameters\": ", "ipython"],
    },
];

/// The format of Hermes and Qwen, also taught to models whose template knows no tools.
pub(super) const HERMES: ToolFormat = ToolFormat {
    name: "hermes",
    trigger: "<tool_call>",
    at_start: false,
    first: "\n{\"name\": \"",
    middle: "\", \"arguments\": ",
    arguments: Arguments::Json,
    close: "}\n</tool_call>",
    next: "\n<tool_call>\n{\"name\": \"",
    end: "",
    ids: Ids::Long,
    signs: &["<tool_call>", "tools"],
};

impl ToolFormat {
    /// The format of a name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        FORMATS.iter().find(|format| format.name == name)
    }

    /// The names of all.
    #[must_use]
    pub fn names() -> Vec<&'static str> {
        FORMATS.iter().map(|format| format.name).collect()
    }

    /// The format that a template writes.
    pub(super) fn of_template(source: &str) -> Option<&'static Self> {
        FORMATS.iter().find(|format| format.signs.iter().all(|sign| source.contains(sign)))
    }

    /// The marks of the format that may be tokens of their own.
    pub(super) fn marks() -> [&'static str; 11] {
        [
            "<tool_call>",
            "</tool_call>",
            "[TOOL_CALLS]",
            "[ARGS]",
            "<|channel|>",
            "<|message|>",
            "<|start|>",
            "<|end|>",
            "<|call|>",
            "<|return|>",
            "<|constrain|>",
        ]
    }
}
