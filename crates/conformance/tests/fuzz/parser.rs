//! The PTX parser and the printer: a tree or an error for any bytes, and a tree that is printed is
//! parsed again.

use crate::mutate::{Luck, bytes, ptx};
use crate::{first_seed, found, rounds, seeds, without_panic};

/// Mutants of each text.
const MUTANTS: u64 = 24;

fn check(text: &str) {
    without_panic("the parser or the printer", text, || {
        if let Ok(module) = warpfold_ptx::parse(text) {
            let printed = module.to_string();
            let again = warpfold_ptx::parse(&printed).unwrap_or_else(|error| panic!("{error} in\n{printed}"));
            assert!(again == module, "another tree comes back of\n{printed}");
        }
    });
}

#[test]
fn any_text_is_a_tree_that_prints_or_an_error() {
    found().iter().for_each(|(_, text)| check(text));
    for (n, (_, text)) in (0u64..).zip(seeds()) {
        for k in 0..MUTANTS * rounds() {
            let mut luck = Luck::new(first_seed() ^ n << 20 ^ k);
            if k % 3 == 0 {
                check(&ptx(&text, &mut luck));
            } else {
                check(&String::from_utf8_lossy(&bytes(text.as_bytes(), &mut luck)));
            }
        }
    }
}

#[test]
fn deep_nesting_is_no_deep_recursion() {
    for (open, close) in [("{", "}"), ("(", ")"), ("-", ""), ("!", "")] {
        let (many, end) = (open.repeat(100_000), close.repeat(100_000));
        check(&format!(".version 8.0\n.target sm_80\n.address_size 64\n.entry k() {{ {many}{end} ret; }}"));
        check(&format!(".version 8.0\n.target sm_80\n.address_size 64\n.global .u32 x = {many}1{end};"));
    }
}
