//! Lines of source that kernels carry, and errors that name them.

use warpfold_lang::{Arch, Global, Kernel, Target, kernel, range, shared, sync_threads, thread_idx, var, when};

const SM_80: Target = Target::new(Arch::SM_80, (8, 0));

fn sum() -> Kernel<(Global<f32>, Global<f32>)> {
    kernel("sum", |input: Global<f32>, output: Global<f32>| {
        let thread = thread_idx().x;
        let tile = shared::<f32>(64);
        let total = var(0.0_f32);
        range(0, 4, 1, |i| {
            total.set(total.get() + input.at(thread + i * 64).get());
        });
        tile.at(thread).set(total.get());
        sync_threads();
        when(thread.lt(32), || {
            output.at(thread).set(tile.at(thread).get() + tile.at(thread + 32).get());
        });
    })
}

/// The line of this file that an instruction comes from.
fn line_of(text: &str, instruction: &str) -> u32 {
    let mut line = 0;
    for statement in text.lines().map(str::trim) {
        if let Some(location) = statement.strip_prefix(".loc ") {
            line = location.split_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("a line number");
        } else if statement.contains(instruction) {
            return line;
        }
    }
    panic!("no {instruction} in\n{text}")
}

/// The line of this file that has a piece of text first.
fn line_with(text: &str) -> u32 {
    let at = include_str!("lines.rs").lines().position(|line| line.contains(text)).expect("it is there");
    u32::try_from(at + 1).expect("a short file")
}

#[test]
fn an_instruction_says_the_line_of_its_author() {
    let text = sum().build_with_lines(&SM_80).expect("a kernel").ptx();
    assert_eq!(line_of(&text, "ld.global.f32"), line_with("total.set(total.get()"));
    assert_eq!(line_of(&text, "st.shared.f32"), line_with("tile.at(thread).set"));
    assert_eq!(line_of(&text, "bar.sync"), line_with("        sync_threads();"));
    assert_eq!(line_of(&text, "st.global.f32"), line_with("output.at(thread).set"));
    let files: Vec<&str> = text.lines().filter(|line| line.starts_with(".file")).collect();
    assert_eq!(files.len(), 1, "the language's own files are nobody's: {files:?}");
    assert!(files[0].ends_with("tests/all/lines.rs\""), "{files:?}");
}

#[test]
fn lines_change_no_instruction() {
    let without = |text: &str| -> String {
        let lines = text.lines().filter(|line| !line.trim().starts_with(".loc") && !line.starts_with(".file"));
        lines.filter(|line| !line.is_empty()).map(|line| format!("{line}\n")).collect()
    };
    let plain = sum().build(&SM_80).expect("a kernel").ptx();
    let lines = sum().build_with_lines(&SM_80).expect("a kernel").ptx();
    assert!(!plain.contains(".loc") && !plain.contains(".file"), "{plain}");
    assert_eq!(without(&lines), without(&plain));
    assert_eq!(warpfold_ptx::parse(&lines).expect("PTX"), sum().build_with_lines(&SM_80).expect("a kernel").module);
}

#[test]
fn an_error_names_the_operation_that_is_wrong() {
    let late = kernel("late", |output: Global<u32>| {
        output.set(1);
        warpfold_lang::wait_for_dependencies();
    });
    let line = line_with("warpfold_lang::wait_for_dependencies();");
    let error = late.ptx(&SM_80).expect_err("a wait after an access");
    assert_eq!(error.location().line(), line);
    assert!(error.to_string().contains(&format!("tests/all/lines.rs:{line}: kernel 'late': ")), "{error}");
}
