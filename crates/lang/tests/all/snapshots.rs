//! What each kernel of the suite prints. All but the longest keep their text.

#[path = "../common/snapshots.rs"]
mod common;

use crate::suite::{SM_80, cases};
use warpfold_lang::{Built, Error, Target};

fn build(target: &Target) -> Vec<Result<Built, Error>> {
    cases(target).iter().map(|case| Ok(case.build(target))).collect()
}

fn text_group(built: &Built) -> Option<String> {
    Some(built.entry.clone())
}

#[test]
fn building_twice_prints_the_same_text() {
    for case in cases(&SM_80) {
        assert_eq!(case.build(&SM_80).ptx(), case.build(&SM_80).ptx(), "{}", case.name);
    }
}
