//! Bounds of the virtual GPU, from both sides.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use warpfold_sim::{Arch, Error, Launch, Memory, Options, Program, Report};

const HEAD: &str = ".version 8.0\n.target sm_80\n.address_size 64\n";

/// Launches the kernel `k` of a text on a memory that holds `data`, whose address it takes with a
/// number.
fn run(text: &str, [blocks, threads]: [u32; 2], data: &[u8], number: u32, options: &Options) -> Result<Report, Error> {
    let memory = Memory::new(1 << 24);
    let address = memory.allocate(data.len().max(8) as u64, "data")?;
    memory.write(address, data)?;
    let launch = Launch {
        kernel: "k".to_owned(),
        grid: [blocks, 1, 1],
        block: [threads, 1, 1],
        cluster: [1, 1, 1],
        dynamic_shared: 0,
        params: [&address.to_le_bytes()[..], &number.to_le_bytes()].concat(),
        cooperative: false,
        programmatic: false,
    };
    Program::load(&memory, &format!("{HEAD}{text}"), Arch::SM_90A)?.launch(&memory, &launch, options)
}

/// The rule of the only finding, if there is one.
fn rule(report: &Report) -> Option<&str> {
    assert!(report.findings.len() < 2, "{:?}", report.findings);
    report.findings.first().map(|finding| finding.rule.as_str())
}

/// A function that calls itself so many times, with a variable of so many bytes in each call.
fn recursion(local_bytes: u32) -> String {
    let local = if local_bytes > 0 { format!(".local .align 16 .b8 x[{local_bytes}];") } else { String::new() };
    let call = "{ .param .u32 a; st.param.u32 [a], %n; call again, (a); }";
    format!(
        ".func again(.param .u32 n) {{
            {local} .reg .u32 %n; .reg .pred %is_last;
            ld.param.u32 %n, [n];
            setp.eq.u32 %is_last, %n, 1;
            @%is_last ret;
            sub.u32 %n, %n, 1;
            {call}
            ret;
        }}
        .visible .entry k(.param .u64 data, .param .u32 n) {{
            .reg .u32 %n;
            ld.param.u32 %n, [n];
            {call}
            ret;
        }}"
    )
}

#[test]
fn calls_are_nested_as_deep_as_is_said() -> Result<(), Error> {
    for (calls, expected) in [(1024, None), (1025, Some("calls are nested more than 1024 deep"))] {
        let report = run(&recursion(0), [1, 32], &[], calls, &Options::default())?;
        assert_eq!((rule(&report), report.aborted), (expected, expected.is_some()), "{calls}");
    }
    Ok(())
}

#[test]
fn a_thread_has_as_much_local_memory_as_on_hardware() -> Result<(), Error> {
    for (calls, expected) in [(8, None), (9, Some("the stack of a thread overflows"))] {
        // A call takes 64 KiB less 32 bytes, with what is passed.
        let report = run(&recursion((64 << 10) - 64), [1, 32], &[], calls, &Options::default())?;
        assert_eq!((rule(&report), report.aborted), (expected, expected.is_some()), "{calls}");
    }
    let declared = |bytes: u32| {
        let text = format!(".entry k(.param .u64 data, .param .u32 n) {{ .local .b8 x[{bytes}]; ret; }}");
        run(&text, [1, 32], &[], 0, &Options::default())
    };
    declared(512 << 10)?;
    assert!(declared((512 << 10) + 1).is_err());
    Ok(())
}

#[test]
fn texts_are_printed_whole_or_said_to_have_no_end() -> Result<(), Error> {
    let text = "
        .extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);
        .visible .entry k(.param .u64 data, .param .u32 n) {
            .reg .u64 %data;
            ld.param.u64 %data, [data];
            cvta.global.u64 %data, %data;
            { .param .b64 f; st.param.b64 [f], %data; .param .b64 a; st.param.b64 [a], 0; .param .b32 r;
              call (r), vprintf, (f, a); }
            ret;
        }";
    for (len, is_printed) in [(1 << 16, true), ((1 << 16) + 1, false)] {
        let data = [vec![b'x'; len], vec![0]].concat();
        let printed = Arc::new(Mutex::new(String::new()));
        let to = Arc::clone(&printed);
        let output = Some(Arc::new(move |part: &str| to.lock().expect("one thread").push_str(part)) as Arc<_>);
        run(text, [1, 1], &data, 0, &Options { output, ..Options::default() })?;
        let printed = printed.lock().expect("one thread");
        assert_eq!(printed.len(), if is_printed { len } else { "(a text without an end)".len() });
    }
    Ok(())
}

#[test]
fn blocks_may_wait_for_as_many_as_one_worker_keeps_resident() -> Result<(), Error> {
    let text = "
        .visible .entry k(.param .u64 data, .param .u32 n) {
            .reg .u64 %data; .reg .u32 %n, %come; .reg .pred %is_early;
            ld.param.u64 %data, [data];
            ld.param.u32 %n, [n];
            atom.global.add.u32 %come, [%data], 1;
        WAIT:
            ld.volatile.global.u32 %come, [%data];
            setp.lt.u32 %is_early, %come, %n;
            @%is_early bra WAIT;
            ret;
        }";
    let options = Options { workers: Some(1), patience: 1 << 20, ..Options::default() };
    let expected = "spins, and nothing in the grid makes progress that ends; of the grid 1 have not begun, as a host \
                    thread keeps no more than 256 resident";
    for (blocks, expected) in [(256, None), (257, Some(expected))] {
        let report = run(text, [blocks, 1], &[0; 8], blocks, &options)?;
        assert_eq!((rule(&report), report.aborted), (expected, expected.is_some()), "{blocks}");
    }
    Ok(())
}

#[test]
fn small_launches_and_large_ones_have_the_same_reports() -> Result<(), Error> {
    let mut text =
        String::from(".visible .entry k(.param .u64 data, .param .u32 n) { .reg .u32 %a; mov.u32 %a, %tid.x;\n");
    (0..20).try_for_each(|i| writeln!(text, "add.u32 %a, %a, {i};")).expect("a text");
    text += "ret; }";
    // 4,096 threads, by one worker, and 4,097.
    for [blocks, threads] in [[64, 64], [4097, 1]] {
        let counters = |workers: Option<usize>| {
            let options = Options { workers, ..Options::default() };
            run(&text, [blocks, threads], &[], 0, &options).map(|report| report.counters)
        };
        assert_eq!(counters(Some(1))?, counters(None)?, "{blocks} x {threads}");
    }
    Ok(())
}
