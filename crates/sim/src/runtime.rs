//! Functions of the device runtime for kernels: `vprintf`, `__assertfail`, `malloc`, `free`.

use std::fmt::Write as _;

use crate::exec::block::{Context, lanes_of};
use crate::exec::code::{Call, CallTarget};
use crate::exec::frame::{get, put, words_of};
use crate::exec::machine::{Fault, Machine};
use crate::exec::memory_map::{Window, window};
use crate::exec::warp::Warp;
use crate::heap::{Asked, BadFree};
use crate::report::{FindingKind, Severity};

// THRESHOLD: a longer text counts as one without an end; tested by
// crates/sim/tests/first_kernel/limits.rs::texts_are_printed_whole_or_said_to_have_no_end
/// Maximum length of a format or a `%s` argument.
const MAX_TEXT: u64 = 1 << 16;

/// Runs a runtime function for part `i`; returns true if the run ends here.
pub(crate) fn call(
    m: &mut Machine,
    warp: &mut Warp,
    i: usize,
    call: &Call,
    cx: &mut Context<'_>,
    output: &mut String,
) -> bool {
    let part = warp.parts[i].clone();
    let mut arguments: Vec<[u64; 32]> = Vec::new();
    for slot in &call.arguments {
        let mut values = [0u64; 32];
        for lane in lanes_of(part.mask) {
            let low = get(warp, cx.code, part.frame, *slot, lane, 0);
            let high = if words_of(*slot) > 1 { get(warp, cx.code, part.frame, *slot, lane, 1) } else { 0 };
            values[lane as usize] = u64::from(low) | u64::from(high) << 32;
        }
        arguments.push(values);
    }
    let argument = |n: usize, lane: u32| arguments.get(n).map_or(0, |a| a[lane as usize]);
    for lane in lanes_of(part.mask) {
        let result = match call.target {
            CallTarget::Vprintf => print(m, argument(0, lane), argument(1, lane), lane, output),
            CallTarget::AssertFail => {
                let text = |m: &mut Machine, n| text_at(m, argument(n, lane), lane);
                let (message, file, function) = (text(m, 0), text(m, 1), text(m, 3));
                let line = argument(2, lane) as u32;
                let _ = writeln!(
                    output,
                    "{file}:{line}: {function}: assertion `{message}` failed in block {}, thread {}",
                    m.block,
                    m.thread(lane)
                );
                *cx.trap = Some((call.instruction, m.block, m.thread(lane)));
                m.stop = true;
                return true;
            }
            CallTarget::Malloc => malloc(m, call, argument(0, lane), lane),
            CallTarget::Free => {
                free(m, call, argument(0, lane), lane);
                if m.stop {
                    return true;
                }
                0
            }
            CallTarget::Direct(_) | CallTarget::Indirect(_) => unreachable!("not a runtime function"),
        };
        if let Some(slot) = call.returns.first() {
            for word in 0..words_of(*slot).min(2) {
                put(warp, cx.code, part.frame, *slot, lane, word, (result >> (32 * word)) as u32);
            }
        }
    }
    false
}

/// `malloc`: returns null if the heap has no room, as the CUDA documentation describes.
fn malloc(m: &mut Machine, call: &Call, bytes: u64, lane: u32) -> u64 {
    let asked = Asked { launch: m.launch, instruction: call.instruction, block: m.block, thread: m.thread(lane) };
    m.heap.as_ref().map_or(0, |heap| heap.malloc(bytes, asked))
}

/// `free`, without effect for null. Invalid addresses are a finding, and without checks end the
/// run.
fn free(m: &mut Machine, call: &Call, address: u64, lane: u32) {
    let Some(heap) = m.heap.clone().filter(|_| address != 0) else { return };
    let Err(error) = heap.free(address) else { return };
    let (kind, rule) = match error {
        BadFree::Twice => (FindingKind::UseAfterFree, "frees memory of the device heap that was freed before"),
        BadFree::Unknown => (FindingKind::OutOfBounds, "frees an address that malloc did not give"),
    };
    let place = if heap.contains(address) { "device heap".to_owned() } else { m.global.describe(address) };
    let fault = Fault {
        kind,
        severity: Severity::Error,
        instruction: call.instruction,
        block: m.block,
        thread: m.thread(lane),
        address: Some((address, place)),
        other: None,
        rule: rule.to_owned(),
    };
    let stop = !m.checked;
    m.fault(fault, stop);
}

/// Reads one byte at a generic address.
fn byte(m: &mut Machine, address: u64, lane: u32) -> Option<u8> {
    match window(address) {
        (Window::Global, _) => {
            let data = m.global.locate(address, 1)?;
            // SAFETY: `locate` gives an address inside a live allocation, whose contents are atomic
            // bytes.
            Some(unsafe { (*data.cast::<std::sync::atomic::AtomicU8>()).load(std::sync::atomic::Ordering::Relaxed) })
        }
        (Window::Local, offset) => {
            // SAFETY: `local` points at the local memory of the current warp.
            let rows = unsafe { &*m.local };
            let row = rows.get(usize::try_from(offset / 4).ok()?)?;
            Some(row.0[lane as usize].to_le_bytes()[(offset % 4) as usize])
        }
        (Window::Shared, offset) if offset < u64::from(m.shared_bytes) => {
            // SAFETY: inside the shared memory of the current block.
            Some(unsafe { *m.shared.add(offset as usize) })
        }
        (Window::Param, offset) => m.params.get(usize::try_from(offset).ok()?).copied(),
        (Window::Shared, _) => None,
    }
}

fn text_at(m: &mut Machine, address: u64, lane: u32) -> String {
    let mut bytes = Vec::new();
    for i in 0..=MAX_TEXT {
        match byte(m, address.wrapping_add(i), lane) {
            Some(0) => return String::from_utf8_lossy(&bytes).into_owned(),
            Some(b) => bytes.push(b),
            None => return "(bad address)".to_owned(),
        }
    }
    "(a text without an end)".to_owned()
}

fn word_at(m: &mut Machine, address: u64, bytes: u64, lane: u32) -> u64 {
    (0..bytes).fold(0, |all, i| all | u64::from(byte(m, address.wrapping_add(i), lane).unwrap_or(0)) << (8 * i))
}

/// `vprintf`: formats like C; returns the number of arguments, like the device runtime.
fn print(m: &mut Machine, format: u64, arguments: u64, lane: u32, output: &mut String) -> u64 {
    let text = text_at(m, format, lane);
    let mut chars = text.chars().peekable();
    let mut at = arguments;
    let mut count = 0;
    while let Some(c) = chars.next() {
        if c != '%' {
            output.push(c);
            continue;
        }
        let mut spec = String::new();
        while let Some(&next) = chars.peek() {
            chars.next();
            spec.push(next);
            if next.is_ascii_alphabetic() && !matches!(next, 'l' | 'h' | 'z' | 'j' | 't' | 'L') || next == '%' {
                break;
            }
        }
        if spec.ends_with('%') {
            output.push('%');
            continue;
        }
        let Some(conversion) = spec.chars().last() else { break };
        let wide = spec.contains(['l', 'z', 'j', 't'])
            || matches!(conversion, 'f' | 'e' | 'g' | 'a' | 'F' | 'E' | 'G' | 'p' | 's');
        let bytes = if wide { 8 } else { 4 };
        at = at.next_multiple_of(bytes);
        let value = word_at(m, at, bytes, lane);
        at += bytes;
        count += 1;
        let shown = if conversion == 's' { text_at(m, value, lane) } else { convert(&spec, conversion, wide, value) };
        output.push_str(&pad(&spec, conversion, &shown));
    }
    count
}

/// The precision of a conversion, if it has one.
fn precision(spec: &str) -> Option<usize> {
    let digits: String = spec.split('.').nth(1)?.chars().take_while(char::is_ascii_digit).collect();
    Some(digits.parse().unwrap_or(0))
}

#[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "C's conversions")]
fn convert(spec: &str, conversion: char, wide: bool, value: u64) -> String {
    let float = f64::from_bits(value);
    let digits = precision(spec);
    let alternate = spec.contains('#');
    match conversion {
        'd' | 'i' => signed(spec, if wide { value as i64 } else { i64::from(value as i32) }),
        'u' => value.to_string(),
        'x' => format!("{}{value:x}", if alternate { "0x" } else { "" }),
        'X' => format!("{}{value:X}", if alternate { "0X" } else { "" }),
        'o' => format!("{value:o}"),
        'p' => format!("{value:#x}"),
        'c' => char::from(value as u8).to_string(),
        'f' | 'F' => plus(
            spec,
            float,
            if float.is_finite() { format!("{float:.*}", digits.unwrap_or(6)) } else { not_finite(float) },
        ),
        'e' | 'E' => plus(spec, float, exponent(float, digits.unwrap_or(6), conversion)),
        'g' | 'G' => plus(spec, float, general(float, digits.unwrap_or(6).max(1), conversion)),
        other => format!("%{other}"),
    }
}

fn signed(spec: &str, value: i64) -> String {
    if spec.contains('+') && value >= 0 { format!("+{value}") } else { value.to_string() }
}

fn plus(spec: &str, value: f64, text: String) -> String {
    if spec.contains('+') && !value.is_sign_negative() { format!("+{text}") } else { text }
}

fn not_finite(value: f64) -> String {
    let name = if value.is_nan() { "nan" } else { "inf" };
    if value.is_sign_negative() { format!("-{name}") } else { name.to_owned() }
}

/// `1.500000e+00`
fn exponent(value: f64, digits: usize, conversion: char) -> String {
    if !value.is_finite() {
        return not_finite(value);
    }
    let text = format!("{value:.digits$e}");
    let (mantissa, power) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, power) = power.strip_prefix('-').map_or(('+', power), |p| ('-', p));
    format!("{mantissa}{conversion}{sign}{power:0>2}")
}

/// The shorter of `%e` and `%f`, without trailing zeros.
fn general(value: f64, digits: usize, conversion: char) -> String {
    if !value.is_finite() {
        return not_finite(value);
    }
    if value == 0.0 {
        return if value.is_sign_negative() { "-0".to_owned() } else { "0".to_owned() };
    }
    let scientific = format!("{value:.*e}", digits - 1);
    let power: i64 = scientific.split_once('e').and_then(|(_, p)| p.parse().ok()).unwrap_or(0);
    let e = if conversion == 'G' { 'E' } else { 'e' };
    let trim = |text: &str| {
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text.to_owned() }
    };
    if power < -4 || power >= i64::try_from(digits).unwrap_or(i64::MAX) {
        let text = exponent(value, digits - 1, e);
        let (mantissa, tail) = text.split_once(e).unwrap_or((&text, "+00"));
        format!("{}{e}{tail}", trim(mantissa))
    } else {
        let decimals = usize::try_from(i64::try_from(digits).unwrap_or(6) - 1 - power).unwrap_or(0);
        trim(&format!("{value:.decimals$}"))
    }
}

/// Pads to the width of a conversion.
fn pad(spec: &str, conversion: char, text: &str) -> String {
    let left = spec.contains('-');
    let flags_end = spec.find(|c: char| !"-+ #0".contains(c)).unwrap_or(0);
    let zero = spec[..flags_end].contains('0') && !left && conversion != 's' && conversion != 'c';
    let width: usize =
        spec[flags_end..].chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap_or(0);
    if text.len() >= width {
        return text.to_owned();
    }
    let fill = width - text.len();
    if left {
        format!("{text}{}", " ".repeat(fill))
    } else if zero {
        let (sign, digits) = match text.strip_prefix(['-', '+']) {
            Some(digits) => (&text[..1], digits),
            None => ("", text),
        };
        format!("{sign}{}{digits}", "0".repeat(fill))
    } else {
        format!("{}{text}", " ".repeat(fill))
    }
}
