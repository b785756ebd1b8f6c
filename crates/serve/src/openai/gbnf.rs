//! Grammars in GBNF, the notation of llama.cpp and xgrammar, in Lark, which `llguidance` reads.

use std::collections::HashMap;

/// A word of a grammar.
#[derive(Debug, PartialEq)]
enum Word {
    Name(String),
    /// `::=`
    Is,
    /// What Lark has, too: a quoted text, a class of characters, an operator.
    Lark(String),
}

/// Returns whether some line begins a rule as GBNF does.
pub(super) fn is_gbnf(text: &str) -> bool {
    text.lines().any(|line| {
        line.split_once("::=").is_some_and(|(name, _)| {
            let name = name.trim();
            !name.is_empty() && name.chars().all(is_of_name)
        })
    })
}

/// The grammar in Lark. Rules that do not lead back to themselves become terminals, so that their
/// texts may overlap.
pub(super) fn to_lark(text: &str) -> Result<String, String> {
    let words = words(text)?;
    let mut rules: Vec<(&str, &[Word])> = Vec::new();
    let is_start = |at: &usize| matches!(words[*at..], [Word::Name(_), Word::Is, ..]);
    let starts: Vec<usize> = (0..words.len()).filter(is_start).collect();
    if starts.first() != Some(&0) {
        return Err("a grammar begins with `name ::=`".to_owned());
    }
    for (i, start) in starts.iter().enumerate() {
        let end = starts.get(i + 1).copied().unwrap_or(words.len());
        let Word::Name(name) = &words[*start] else { return Err("`::=` stands after no name".to_owned()) };
        rules.push((name, &words[start + 2..end]));
    }
    let mut numbers = HashMap::new();
    for (number, (name, _)) in rules.iter().enumerate() {
        if numbers.insert(*name, number).is_some() {
            return Err(format!("the rule {name} is there twice"));
        }
    }
    let root = *numbers.get("root").ok_or("there is no rule root")?;
    let mut uses = Vec::new();
    for (name, body) in &rules {
        let mut used = Vec::new();
        for word in *body {
            match word {
                Word::Name(other) => {
                    used.push(*numbers.get(other.as_str()).ok_or_else(|| format!("{name}: there is no rule {other}"))?);
                }
                Word::Is => return Err(format!("{name}: `::=` stands after no name")),
                Word::Lark(_) => {}
            }
        }
        uses.push(used);
    }
    let terminals = terminals(&uses);
    let called = |number: usize| {
        let name = format!("g{number}_{}", rules[number].0.replace('-', "_"));
        if terminals[number] { name.to_uppercase() } else { name.to_lowercase() }
    };
    let mut lark = format!("start: {}\n", called(root));
    for (number, (_, body)) in rules.iter().enumerate() {
        let body: Vec<String> = body
            .iter()
            .map(|word| match word {
                Word::Name(name) => called(numbers[name.as_str()]),
                Word::Lark(text) => text.clone(),
                Word::Is => String::new(),
            })
            .collect();
        // Lark has no rule without a word.
        let body = if body.is_empty() { "\"\"".to_owned() } else { body.join(" ") };
        lark += &format!("{}: {}\n", called(number), body.replace(" {", "{"));
    }
    Ok(lark)
}

/// For each rule whether it leads to no circle, by the numbers of the rules that each uses.
fn terminals(uses: &[Vec<usize>]) -> Vec<bool> {
    let mut missing: Vec<usize> = uses.iter().map(Vec::len).collect();
    let mut users = vec![Vec::new(); uses.len()];
    for (rule, used) in uses.iter().enumerate() {
        used.iter().for_each(|other| users[*other].push(rule));
    }
    let mut found = vec![false; uses.len()];
    let mut open: Vec<usize> = (0..uses.len()).filter(|rule| missing[*rule] == 0).collect();
    while let Some(rule) = open.pop() {
        found[rule] = true;
        for user in &users[rule] {
            missing[*user] -= 1;
            if missing[*user] == 0 {
                open.push(*user);
            }
        }
    }
    found
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_')
}

fn words(text: &str) -> Result<Vec<Word>, String> {
    let mut words = Vec::new();
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let word = match c {
            c if c.is_whitespace() => continue,
            '#' => {
                rest.by_ref().find(|c| *c == '\n');
                continue;
            }
            ':' if rest.next() == Some(':') && rest.next() == Some('=') => Word::Is,
            '"' => {
                let mut literal = String::new();
                loop {
                    match rest.next().ok_or("a text has no end")? {
                        '"' => break,
                        '\\' => literal.push(escape(&mut rest)?),
                        c => literal.push(c),
                    }
                }
                Word::Lark(serde_json::Value::String(literal).to_string())
            }
            '[' => Word::Lark(class(&mut rest)?),
            '.' => Word::Lark("/(?s:.)/".to_owned()),
            '|' | '(' | ')' | '*' | '+' | '?' => Word::Lark(c.to_string()),
            '{' => {
                let inner: String = rest.by_ref().take_while(|c| *c != '}').filter(|c| !c.is_whitespace()).collect();
                if inner.is_empty() || !inner.chars().all(|c| c.is_ascii_digit() || c == ',') {
                    return Err(format!("`{{{inner}}}` is no repetition"));
                }
                Word::Lark(format!("{{{inner}}}"))
            }
            c if is_of_name(c) => {
                let mut name = c.to_string();
                while let Some(c) = rest.next_if(|c| is_of_name(*c)) {
                    name.push(c);
                }
                Word::Name(name)
            }
            c => return Err(format!("`{c}` has no meaning in GBNF")),
        };
        words.push(word);
    }
    Ok(words)
}

/// The character after a backslash.
fn escape(rest: &mut impl Iterator<Item = char>) -> Result<char, String> {
    let c = rest.next().ok_or("a text has no end")?;
    let num_digits = match c {
        'n' => return Ok('\n'),
        't' => return Ok('\t'),
        'r' => return Ok('\r'),
        'x' => 2,
        'u' => 4,
        'U' => 8,
        '\\' | '"' | '\'' | '[' | ']' | '-' | '^' | '/' => return Ok(c),
        c => return Err(format!("`\\{c}` has no meaning in GBNF")),
    };
    let digits: String = rest.take(num_digits).collect();
    let code = u32::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == num_digits);
    code.and_then(char::from_u32).ok_or_else(|| format!("`\\{c}{digits}` is no character"))
}

/// A class of characters, after its bracket, as a regular expression.
fn class(rest: &mut std::iter::Peekable<impl Iterator<Item = char>>) -> Result<String, String> {
    let sign = if rest.next_if_eq(&'^').is_some() { "^" } else { "" };
    let mut regex = format!("/[{sign}");
    let mut is_empty = true;
    loop {
        match rest.next().ok_or("a class of characters has no end")? {
            ']' => break,
            // Between two characters it is a range, for regular expressions as well.
            '-' if !is_empty && rest.peek().is_some_and(|c| *c != ']') => regex.push('-'),
            c => regex += &coded(if c == '\\' { escape(rest)? } else { c }),
        }
        is_empty = false;
    }
    if is_empty { Err("a class of characters has none".to_owned()) } else { Ok(regex + "]/") }
}

/// A character as regular expressions have any.
pub(super) fn coded(c: char) -> String {
    format!("\\x{{{:x}}}", u32::from(c))
}

#[cfg(test)]
mod tests {
    use super::{is_gbnf, to_lark};

    #[test]
    fn rules_without_a_circle_are_terminals() {
        let lark =
            to_lark("root ::= \"a\\n\" b # why\nb ::= \"(\" b \")\" | some-x{2, 3}\n | \"\"\nsome-x ::= [^a-z\\]] .");
        let expected = "start: g0_root\ng0_root: \"a\\n\" g1_b\ng1_b: \"(\" g1_b \")\" | G2_SOME_X{2,3} | \"\"\n\
                        G2_SOME_X: /[^\\x{61}-\\x{7a}\\x{5d}]/ /(?s:.)/\n";
        assert_eq!(lark.as_deref(), Ok(expected));
    }

    #[test]
    fn what_is_no_grammar_is_refused() {
        for text in [
            "",
            "a ::= \"b\"",
            "root ::= b",
            "root ::= \"b",
            "root ::= [a",
            "root ::= []",
            "root ::= \"\\q\"",
            "root ::= \"\\ud800\"",
            "root ::= \"a\"{x}",
            "root ::= \"a\"\nroot ::= \"b\"",
            "root ::= ::= \"a\"",
            "\"a\" ::= \"b\"",
            "root : \"a\"",
        ] {
            assert!(to_lark(text).is_err(), "{text}");
        }
    }

    #[test]
    fn lark_with_the_sign_in_a_text_is_lark() {
        assert!(!is_gbnf("start: \"a ::= b\"") && is_gbnf("# rules\n root ::= \"a: b\""));
    }
}
