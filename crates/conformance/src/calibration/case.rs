//! A case: a question about hardware, the answers that models of it give, and how to ask a device.

use super::accesses::Access;

/// A question about hardware and its plausible answers.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// A short name.
    pub name: &'static str,
    /// The question.
    pub question: &'static str,
    /// The experiment that answers it.
    pub probe: Probe,
    /// The plausible models, each with what it predicts; no two predict the same.
    pub models: &'static [Model],
    /// The name of the model that the virtual GPU implements.
    pub virtual_gpu: &'static str,
    /// Location of the behaviour in the simulator's source.
    pub source: &'static str,
    /// The authority: whether the PTX ISA decides the question.
    pub rule: Rule,
}

/// A model of the hardware, as far as one case sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Model {
    /// A few words.
    pub name: &'static str,
    /// The value stored, or the cost of the access in wavefronts or sectors.
    pub predicts: u64,
}

/// Experiments on a device.
#[derive(Debug, Clone, Copy)]
pub enum Probe {
    /// A warp computes a value: lines of PTX in the frame of `value.ptx`, and their two inputs.
    Value {
        /// The lines.
        body: &'static str,
        /// The inputs.
        inputs: [u64; 2],
    },
    /// An access costs wavefronts or sectors.
    Access(Access),
}

/// Authority that decides a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// The PTX ISA: every device must follow the model of the virtual GPU. Names the section.
    Isa(&'static str),
    /// The hardware: the ISA leaves it open, or says nothing.
    Hardware,
}

/// Answer of a device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Observed {
    /// The value that was stored.
    Value(u64),
    /// Cost of an access: counted on the virtual GPU, interpolated from cycles on hardware.
    Cost(f64),
}

impl Case {
    /// The model that the virtual GPU implements.
    ///
    /// # Panics
    /// If the case names a model that it does not list.
    #[must_use]
    pub fn claimed(&self) -> Model {
        let claimed = self.models.iter().find(|m| m.name == self.virtual_gpu);
        *claimed.unwrap_or_else(|| panic!("{}: no model is called `{}`", self.name, self.virtual_gpu))
    }

    /// The model that an answer speaks for: the one that predicts the value, or whose cost is
    /// nearest by ratio and within a factor of the square root of two.
    #[must_use]
    pub fn judge(&self, observed: Observed) -> Option<Model> {
        match observed {
            Observed::Value(value) => self.models.iter().find(|m| m.predicts == value).copied(),
            Observed::Cost(cost) => {
                #[allow(clippy::cast_precision_loss, reason = "costs are small")]
                let distance = |m: &Model| (cost.max(f64::MIN_POSITIVE) / m.predicts as f64).log2().abs();
                let nearest = self.models.iter().min_by(|a, b| distance(a).total_cmp(&distance(b)))?;
                (distance(nearest) < 0.5).then_some(*nearest)
            }
        }
    }
}

/// The case of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Case> {
    super::cases().find(|c| c.name == name)
}

/// A predicted value or cost in the way its case writes it: small numbers decimal, bit patterns
/// hexadecimal.
#[must_use]
pub fn say(predicts: u64) -> String {
    if predicts < 1024 { predicts.to_string() } else { format!("{predicts:#x}") }
}
