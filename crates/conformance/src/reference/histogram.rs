//! Counts of the integers below a number of bins.

use super::answer::{Answer, Expected};
use super::axes::Refused;
use super::call::Call;
use super::dtype::Dtype;

/// Counts the values of each bin; values without a bin are left out.
pub(super) fn expected(call: &Call<'_>) -> Result<Vec<Expected>, Refused> {
    let x = call.input(0)?;
    if x.dtype.is_float() {
        return Refused::because(format!("histogram of {}", x.dtype.name()));
    }
    let Some(bins) = call.options.bins else { return Refused::because("histogram without bins") };
    let mut counts = vec![0; bins];
    for value in &x.values {
        if let Some(count) = usize::try_from(value.int()).ok().and_then(|bin| counts.get_mut(bin)) {
            *count += 1;
        }
    }
    Ok(vec![Expected::new(Dtype::I32, &[bins], counts.into_iter().map(Answer::int).collect())])
}

#[cfg(test)]
mod tests {
    use super::super::array::Array;
    use super::super::call::Options;
    use super::*;

    #[test]
    fn what_has_no_bin_is_left_out() {
        let x = Array::ints(Dtype::I32, &[6], &[0, 2, 2, 3, -1, 100]);
        let options = Options { bins: Some(4), ..Options::default() };
        let outputs = expected(&Call { op: "histogram", inputs: &[&x], options: &options }).expect("counts");
        assert_eq!(outputs[0].check(&Array::ints(Dtype::I32, &[4], &[1, 0, 2, 1])), Ok(()));
    }
}
