//! What ptxas takes and what the virtual GPU's loader takes, mutant by mutant.
//!
//! Each form of an instruction that the kernels and the PTX files of the repository have is changed
//! in one operand or one qualifier, and both judge the result. `PTXAS` names the assembler; without
//! it no mutant is tried. One of some hundreds is, more with `WARPFOLD_ALL_TESTS`; `MUTANTS=1`
//! writes every disagreement.

mod forms;
mod judges;
mod modules;
mod mutants;
#[allow(dead_code, reason = "the tests of the language name their cases")]
#[path = "../../../lang/tests/all/suite/mod.rs"]
mod suite;

use std::collections::BTreeMap;

use judges::{Ptxas, Verdict, ours};
use mutants::{Mutant, mutants};
use warpfold_ptx::Instruction;

/// Mutants that go to ptxas together.
const TOGETHER: usize = 48;

#[test]
fn the_loader_takes_every_form_of_an_instruction_in_the_repository() {
    let forms: Vec<Instruction> = forms::forms(modules::modules());
    assert!(forms.len() > 1500, "the modules have more than {} forms", forms.len());
    let refused = |form: &Instruction| match ours(&forms::program(forms::NEWEST, &[form]).0) {
        Verdict::Refused(why) => Some(why),
        Verdict::Taken | Verdict::Unsupported(_) => None,
    };
    let refused: Vec<String> = forms.iter().filter_map(refused).collect();
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}

#[test]
fn the_loader_takes_and_refuses_the_mutants_of_instructions_that_ptxas_does() {
    let Some(ptxas) = Ptxas::named() else {
        println!("no ptxas (set PTXAS to name one): nothing was compared");
        return;
    };
    let is_all = std::env::var_os("WARPFOLD_ALL_TESTS").is_some();
    let (of_forms, of_mutants) = if is_all { (1, 149) } else { (7, 97) };
    let forms = forms::forms(modules::modules());
    let mutants = forms.iter().step_by(of_forms).flat_map(mutants);
    let mut tried: Vec<Mutant> = mutants.step_by(of_mutants).collect();
    tried.sort_by_key(|mutant| mutant.target);
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for same in tried.chunk_by(|a, b| a.target == b.target) {
        for group in same.chunks(TOGETHER) {
            let instructions: Vec<_> = group.iter().map(|mutant| &mutant.instruction).collect();
            for (mutant, theirs) in group.iter().zip(ptxas.verdicts(mutant_target(group), &instructions)) {
                *counts.entry(compare(mutant, &theirs)).or_default() += 1;
            }
        }
    }
    println!("{} mutants: {counts:?}", tried.len());
    let share = |name: &str| *counts.get(name).unwrap_or(&0) as f64 / tried.len() as f64;
    // What is left are slips of ptxas: predicates in vectors of numbers, operands without brackets.
    assert!(share(REFUSED) < 0.015, "valid PTX is refused: {counts:?}");
    assert!(share(TAKEN) < 0.04, "what ptxas refuses is taken: {counts:?}");
}

const REFUSED: &str = "refused here alone";
const TAKEN: &str = "taken here alone";

fn mutant_target(group: &[Mutant]) -> forms::Target {
    group[0].target
}

/// On which side the judges stand.
fn compare(mutant: &Mutant, theirs: &Verdict) -> &'static str {
    let ours = ours(&forms::program(mutant.target, &[&mutant.instruction]).0);
    let side = match (&ours, theirs) {
        (Verdict::Taken, Verdict::Taken) => "taken by both",
        (Verdict::Taken, _) => TAKEN,
        (Verdict::Refused(_), Verdict::Taken) => REFUSED,
        (Verdict::Unsupported(_), Verdict::Taken) => "not executed here",
        _ => "refused by both",
    };
    if [TAKEN, REFUSED].contains(&side) && std::env::var_os("MUTANTS").is_some() {
        let target = mutant.target;
        println!("{side}: {}: {target:?} {}\n    {ours:?}\n    {theirs:?}", mutant.change, mutant.instruction);
    }
    side
}
