//! Mutants of a text, each drawn from a number: broken bytes for parsers, and PTX that is mostly
//! still PTX for what comes after them.

/// A generator of numbers (xorshift64*).
pub(crate) struct Luck(u64);

impl Luck {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound.max(1) as u64).expect("below a usize")
    }

    pub(crate) fn pick<'a, T: ?Sized>(&mut self, all: &[&'a T]) -> Option<&'a T> {
        all.get(self.below(all.len())).copied()
    }
}

/// Bytes with some of them changed, cut out, doubled or put in.
pub(crate) fn bytes(text: &[u8], luck: &mut Luck) -> Vec<u8> {
    let mut bytes = text.to_vec();
    for _ in 0..=luck.below(4) {
        let at = luck.below(bytes.len());
        let end = (at + 1 + luck.below(16)).min(bytes.len());
        match luck.below(5) {
            _ if bytes.is_empty() => bytes.push(b'.'),
            0 => bytes[at] ^= 1 << luck.below(8),
            1 => drop(bytes.drain(at..end)),
            2 => {
                let part = bytes[at..end].to_vec();
                let to = luck.below(bytes.len());
                bytes.splice(to..to, part);
            }
            3 => bytes.truncate(at),
            _ => bytes.insert(at, b"{}[]()<>|;:,.%@!-+0x\"\\/*\n"[luck.below(25)]),
        }
    }
    bytes
}

/// Numbers at the edges of what instructions take.
const NUMBERS: &[&str] = &[
    "0",
    "1",
    "-1",
    "2",
    "3",
    "7",
    "15",
    "16",
    "31",
    "32",
    "33",
    "64",
    "127",
    "128",
    "255",
    "1024",
    "65535",
    "65536",
    "2147483647",
    "-2147483648",
    "4294967295",
    "4294967296",
    "0x7fffffffffffffff",
    "0xffffffffffffffff",
    "0f7F800000",
    "0f00000001",
];
const TYPES: &[&str] = &[
    ".u8", ".s8", ".u16", ".s16", ".u32", ".s32", ".u64", ".s64", ".b8", ".b16", ".b32", ".b64", ".b128", ".f16",
    ".f32", ".f64", ".bf16", ".f16x2", ".pred", ".v2", ".v4", ".global", ".shared", ".local", ".const", ".sync",
    ".relaxed", ".acquire", ".release", ".gpu", ".cta", ".sys", ".wide", ".hi", ".lo", ".sat", ".ftz",
];

/// PTX with instructions moved, doubled or left out, and with other registers, numbers and types.
pub(crate) fn ptx(text: &str, luck: &mut Luck) -> String {
    let mut lines: Vec<String> = text.lines().map(|line| line.split("//").next().unwrap_or("").to_owned()).collect();
    let body: Vec<usize> =
        (0..lines.len()).filter(|&n| lines[n].trim_end().ends_with(';') && !lines[n].contains(".reg")).collect();
    if body.is_empty() {
        return text.to_owned();
    }
    let registers: Vec<String> = words(text).filter(|word| word.starts_with('%')).map(str::to_owned).collect();
    let registers: Vec<&str> = registers.iter().map(String::as_str).collect();
    for _ in 0..=luck.below(3) {
        let (n, other) = (body[luck.below(body.len())], body[luck.below(body.len())]);
        match luck.below(8) {
            0 => lines[n].clear(),
            1 => lines[n] = lines[other].clone(),
            2 => lines.swap(n, other),
            3 | 4 => replace(&mut lines[n], luck, |word| word.starts_with('%'), &registers),
            5 | 6 => replace(&mut lines[n], luck, |word| word.starts_with(|c: char| c.is_ascii_digit()), NUMBERS),
            _ => {
                let line = lines[n].clone();
                let types: Vec<&str> = TYPES.iter().copied().filter(|name| line.contains(name)).collect();
                if let (Some(old), Some(new)) = (luck.pick(&types), luck.pick(TYPES)) {
                    lines[n] = line.replacen(old, new, 1);
                }
            }
        }
    }
    lines.join("\n")
}

/// Replaces one of the words of a line that `is_one` accepts.
fn replace(line: &mut String, luck: &mut Luck, is_one: impl Fn(&str) -> bool, by: &[&str]) {
    let found: Vec<(usize, usize)> = words(line)
        .filter(|word| is_one(word))
        .map(|word| (word.as_ptr().addr() - line.as_ptr().addr(), word.len()))
        .collect();
    if let (Some(&(start, len)), Some(new)) = (found.get(luck.below(found.len())), luck.pick(by)) {
        line.replace_range(start..start + len, new);
    }
}

/// Registers, names and numbers.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || "%_$.".contains(c))).filter(|word| !word.is_empty())
}
