//! `quantization_config`: how weights are stored, and what of it would change answers unseen.

use serde_json::Value;

use super::fields::Fields;
use crate::Error;
use crate::error;
use crate::files::Quantization;

/// The same of a text, alone.
#[cfg(test)]
pub(crate) fn of_text(text: &str) -> Result<Quantization, Error> {
    read(&Fields::parse(std::path::Path::new("config.json"), text)?)
}

/// Reads how the weights of a folder are quantized.
pub(super) fn read(fields: &Fields) -> Result<Quantization, Error> {
    let found = ["quantization_config", "compression_config"].into_iter().find(|name| fields.get(name).is_some());
    let Some(quantization) = found.map(|name| fields.object(name)).transpose()?.flatten() else {
        return Ok(Quantization::None);
    };
    let refuse = |what: String| Err(error::unsupported(&fields.path, what));
    let text = |name| quantization.text(name);
    let method = text("quant_method")?;
    match method.as_deref() {
        // 8-bit floats say by their scales how they are stored.
        Some("fp8" | "fbgemm_fp8") => Ok(Quantization::None),
        Some("awq") => {
            let version = text("version")?.map_or_else(|| "gemm".to_owned(), |version| version.to_lowercase());
            match (version.as_str(), quantization.size("bits")?.or(quantization.size("w_bit")?)) {
                ("gemm", Some(4)) => Ok(Quantization::Awq),
                (version, bits) => refuse(format!("weights quantized by awq in {bits:?} bits, laid out as {version}")),
            }
        }
        Some("gptq") => {
            let bits = quantization.needed("bits", quantization.size("bits")?)?;
            let rules = quantization.object("dynamic")?;
            // Rules with a minus sign say which layers are left as they are.
            if let Some(rule) = rules.iter().flat_map(Fields::names).find(|name| !name.starts_with("-:")) {
                return refuse(format!("weights quantized by gptq with a rule for layers {rule:?}"));
            }
            let zeros_plus = match text("checkpoint_format")?.as_deref() {
                None | Some("gptq") => 1,
                Some("gptq_v2") => 0,
                Some(other) => return refuse(format!("weights quantized by gptq as {other}")),
            };
            match bits {
                2 | 4 | 8 => Ok(Quantization::Gptq { bits, zeros_plus }),
                _ => refuse(format!("weights quantized by gptq in {bits} bits")),
            }
        }
        Some("mxfp4") => Ok(Quantization::GptOss),
        Some("compressed-tensors") => compressed(fields, &quantization),
        Some("modelopt") => match text("quant_algo")?.as_deref() {
            Some("NVFP4") => Ok(Quantization::ModelOpt),
            Some("FP8") => Ok(Quantization::None),
            other => refuse(format!("weights quantized by modelopt as {}", other.unwrap_or("nothing named"))),
        },
        Some("bitsandbytes") => match quantization.flag("load_in_4bit")? {
            Some(true) => Ok(Quantization::BitsAndBytes),
            _ => refuse("weights quantized by bitsandbytes in 8 bits".to_owned()),
        },
        other => refuse(format!("weights quantized by {}", other.unwrap_or("an unnamed method"))),
    }
}

fn compressed(fields: &Fields, quantization: &Fields) -> Result<Quantization, Error> {
    let refuse = |what: String| Err(error::unsupported(&fields.path, what));
    let known = [
        "pack-quantized",
        "int-quantized",
        "naive-quantized",
        "float-quantized",
        "nvfp4-pack-quantized",
        "mxfp4-pack-quantized",
        "mixed-precision",
        "dense",
    ];
    let format = quantization.text("format")?.unwrap_or_else(|| "dense".to_owned());
    if !known.contains(&format.as_str()) {
        return refuse(format!("weights quantized by compressed-tensors as {format}"));
    }
    let sparsity = quantization.object("sparsity_config")?;
    let sparsity = sparsity.map(|sparsity| sparsity.text("format")).transpose()?.flatten();
    if let Some(format) = sparsity.filter(|format| format != "dense") {
        return refuse(format!("sparse weights ({format})"));
    }
    let is_empty = |value: &Value| match value {
        Value::Object(all) => {
            all.get("config_groups").is_none_or(|groups| groups.as_object().is_some_and(|g| g.is_empty()))
        }
        _ => false,
    };
    match quantization.get("transform_config") {
        Some(transforms) if !is_empty(transforms) => {
            refuse("weights that are transformed (transform_config)".to_owned())
        }
        _ => Ok(Quantization::CompressedTensors),
    }
}
