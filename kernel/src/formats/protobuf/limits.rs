//! Checks whether a `.proto` text may be passed to the compiler, which trusts its input: it recurses into nested option
//! values until the stack ends, compares each option of a field or a message with all others, and takes thousands of
//! bytes per declaration.
#![forbid(unsafe_code)]

/// The limit of nested brackets of any kind.
const DEEPEST: usize = 64;

/// Fields, messages, enum values and so on, of all files together. 50,000 take 0.4 GB for a moment.
const MOST_DECLARATIONS: usize = 50_000;

/// Options of one field or one message. 4,000 take a second, and each declaration may have options.
const MOST_OPTIONS: usize = 100;

/// Bytes of a name with its dots. A package is part of the full name of everything inside it.
const LONGEST_NAME: usize = 1_024;

/// Bytes of all files together.
const LONGEST: usize = 8 << 20;

/// The totals of all files so far.
#[derive(Default)]
pub struct Limits {
    bytes: usize,
    declarations: usize,
}

impl Limits {
    /// Adds a file. The error says which limit it exceeds.
    pub fn add(&mut self, text: &str) -> Result<(), String> {
        self.bytes = self.bytes.saturating_add(text.len());
        if self.bytes > LONGEST {
            return Err(format!("has more than {} MB of text", LONGEST >> 20));
        }
        // The open brackets, each with the number of options directly inside it.
        let mut open: Vec<(u8, usize)> = vec![(b'{', 0)];
        let mut rest = text.as_bytes();
        while let Some((&byte, after)) = rest.split_first() {
            rest = after;
            match byte {
                b'/' if after.starts_with(b"/") => rest = behind(after, b"\n"),
                b'/' if after.starts_with(b"*") => rest = behind(&after[1..], b"*/"),
                b'"' | b'\'' => rest = behind_string(after, byte),
                b'{' | b'[' | b'(' | b'<' => {
                    if open.len() > DEEPEST {
                        return Err(format!("has brackets more than {DEEPEST} deep"));
                    }
                    open.push((byte, 0));
                    self.declare(usize::from(byte == b'{'))?;
                }
                b'}' | b']' | b')' | b'>' if open.len() > 1 => {
                    open.pop();
                }
                b';' => self.declare(1)?,
                b'=' => one_more(&mut open, b'[')?,
                b'a'..=b'z' | b'A'..=b'Z' | b'_' => {
                    let name = name(rest_from(text, after));
                    if name.len() > LONGEST_NAME {
                        return Err(format!("has a name of more than {LONGEST_NAME} bytes"));
                    }
                    if name == b"option" {
                        one_more(&mut open, b'{')?;
                    }
                    rest = &after[name.len() - 1..];
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn declare(&mut self, count: usize) -> Result<(), String> {
        self.declarations += count;
        if self.declarations > MOST_DECLARATIONS {
            return Err(format!(
                "has more than {MOST_DECLARATIONS} declarations, those of its imports counted"
            ));
        }
        Ok(())
    }
}

/// Counts an option if the innermost bracket is of the kind that has options.
fn one_more(open: &mut [(u8, usize)], kind: u8) -> Result<(), String> {
    match open.last_mut() {
        Some((bracket, options)) if *bracket == kind => {
            *options += 1;
            if *options > MOST_OPTIONS {
                return Err(format!("has more than {MOST_OPTIONS} options in one place"));
            }
        }
        _ => {}
    }
    Ok(())
}

/// The text from one byte before `after` on.
fn rest_from<'a>(text: &'a str, after: &[u8]) -> &'a [u8] {
    &text.as_bytes()[text.len() - after.len() - 1..]
}

fn name(text: &[u8]) -> &[u8] {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.');
    &text[..text.iter().take_while(|byte| is_part(byte)).count()]
}

/// The text after the next `end`.
fn behind<'a>(text: &'a [u8], end: &[u8]) -> &'a [u8] {
    let at = text.windows(end.len()).position(|window| window == end);
    at.map_or(&[], |at| &text[at + end.len()..])
}

fn behind_string(text: &[u8], quote: u8) -> &[u8] {
    let mut bytes = text.iter().enumerate();
    while let Some((at, &byte)) = bytes.next() {
        match byte {
            b'\\' => drop(bytes.next()),
            b'\n' => return &text[at + 1..], // // the compiler ends a string here, with an error
            byte if byte == quote => return &text[at + 1..],
            _ => {}
        }
    }
    &[]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> Option<String> {
        Limits::default().add(text).err()
    }

    #[test]
    fn deep_nesting_is_refused_but_not_in_comments_and_strings() {
        let deep = |count: usize| format!("option (o) = {}{};", "{o:".repeat(count), "}".repeat(count));
        assert_eq!(refused(&deep(60)), None);
        assert!(refused(&deep(70)).is_some_and(|reason| reason.contains("64 deep")));
        let many = "{".repeat(100);
        assert_eq!(
            refused(&format!("// {many}\n/* {many} */ option a = \"\\\"{many}\"; option b = '{many}';")),
            None
        );
        assert_eq!(refused(&format!("message M {{ /* {many}")), None);
        assert_eq!(refused(&"}".repeat(100)), None);
    }

    #[test]
    fn declarations_options_and_names_have_limits() {
        let fields = |count: usize| "int32 a = 1;".repeat(count);
        assert_eq!(refused(&fields(50_000)), None);
        assert!(refused(&fields(50_001)).is_some_and(|reason| reason.contains("50000 declarations")));
        let mut limits = Limits::default();
        limits.add(&fields(30_000)).expect("few enough");
        limits.add(&fields(30_000)).expect_err("too many together");
        let options = |count: usize| format!("message M {{ {} }}", "option deprecated = true;".repeat(count));
        assert_eq!(refused(&options(100)), None);
        assert!(refused(&options(101)).is_some_and(|reason| reason.contains("100 options")));
        let list = |count: usize| format!("int32 a = 1 [{}];", "a = 1,".repeat(count));
        assert_eq!(refused(&list(100)), None);
        assert!(refused(&list(101)).is_some());
        assert_eq!(refused(&format!("package {};", "p".repeat(1024))), None);
        assert!(
            refused(&format!("package {};", "p.".repeat(513))).is_some_and(|reason| reason.contains("1024"))
        );
        assert!(refused(&" ".repeat(LONGEST + 1)).is_some_and(|reason| reason.contains("8 MB")));
    }
}
