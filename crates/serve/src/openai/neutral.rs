//! Fields that clients write out although they ask for nothing.
//!
//! A request is refused for a field that would be ignored and matters; a value that changes nothing
//! is no such field. Each row names a field and the values under which it changes nothing.

use serde_json::Value;

use crate::fields::Fields;

/// Whether a field's value changes nothing.
type IsNeutral = fn(&Value) -> bool;

/// Labels that clients attach for their own books: an answer does not depend on them.
const LABELS: [(&str, IsNeutral); 8] = [
    ("user", Value::is_string),
    ("safety_identifier", Value::is_string),
    ("metadata", Value::is_object),
    ("store", Value::is_boolean),
    ("service_tier", |value| *value == "auto" || *value == "default"),
    // Hints that make an answer no other, only sooner.
    ("prompt_cache_key", Value::is_string),
    ("prompt_cache_retention", Value::is_string),
    ("prediction", Value::is_object),
];

/// Values that are the defaults of OpenAI, vLLM or SGLang.
const DEFAULTS: [(&str, IsNeutral); 25] = [
    ("modalities", |value| *value == serde_json::json!(["text"])),
    ("verbosity", |value| *value == "medium"),
    ("echo", is_false),
    ("suffix", |value| *value == ""),
    ("documents", is_empty),
    ("functions", is_empty),
    ("function_call", |value| *value == "none" || *value == "auto"),
    ("early_stopping", is_false),
    ("detokenize", is_true),
    ("mm_processor_kwargs", is_empty),
    ("kv_transfer_params", is_empty),
    ("vllm_xargs", is_empty),
    ("bad_words", is_empty),
    ("logits_processors", is_empty),
    ("return_tokens_as_token_ids", is_false),
    // Texts of tokens are put together from bytes, and no spaces come between.
    ("spaces_between_special_tokens", Value::is_boolean),
    ("truncate_prompt_tokens", |value| *value == -1),
    ("no_stop_trim", is_false),
    ("return_hidden_states", is_false),
    ("return_routed_experts", is_false),
    ("continue_final_message", is_false),
    ("lora_path", |value| *value == ""),
    ("custom_params", is_empty),
    ("cache_report", is_false),
    ("repetition_detection", is_empty),
];

fn is_false(value: &Value) -> bool {
    *value == false
}

fn is_true(value: &Value) -> bool {
    *value == true
}

fn is_empty(value: &Value) -> bool {
    value.as_array().is_some_and(Vec::is_empty) || value.as_object().is_some_and(serde_json::Map::is_empty)
}

/// Drops the fields that change nothing.
pub(super) fn allow(fields: &mut Fields) {
    LABELS.iter().chain(&DEFAULTS).for_each(|(name, is_neutral)| fields.allow(name, is_neutral));
}
