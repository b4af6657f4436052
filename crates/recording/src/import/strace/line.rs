//! Parsing of strace's lines.

/// A line: the task, the time, and what follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StraceLine<'l> {
    pub(super) task: Option<u32>,
    pub(super) time: Time,
    pub(super) body: Body<'l>,
}

/// When a line was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Time {
    /// Nanoseconds since 1970 (`-ttt`) or midnight (`-tt`).
    At(u64),
    /// Nanoseconds since the line before (`-r`).
    After(u64),
    Unknown,
}

/// What a line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Body<'l> {
    /// A call from its name up to its end.
    Call(&'l str),
    /// A call up to where another came between.
    Unfinished(&'l str),
    /// The rest of a call of this name.
    Resumed(&'l str, &'l str),
    /// The task has ended.
    Exited,
    /// A signal, or a message of strace itself.
    Note,
}

impl<'l> StraceLine<'l> {
    /// Takes a line apart; `None` if it is not one of strace.
    pub(super) fn new(text: &'l str) -> Option<Self> {
        let text = text.trim();
        if text.starts_with("strace: ") || text.starts_with("Process ") {
            let (task, time) = (None, Time::Unknown);
            return Some(Self { task, time, body: Body::Note });
        }
        let (task, text) = task(text);
        let (time, text) = time(text);
        Body::new(text).map(|body| Self { task, time, body })
    }
}

impl<'l> Body<'l> {
    fn new(text: &'l str) -> Option<Self> {
        if text.starts_with("+++ ") {
            return Some(Self::Exited);
        }
        // `???` is a call of a task that was killed before strace saw which.
        let unknown = text.starts_with("???") || text.starts_with("<... ??? ");
        if text.starts_with("--- ") || text == "<unfinished ...>" || unknown {
            return Some(Self::Note);
        }
        if let Some(rest) = text.strip_prefix("<... ") {
            let (name, rest) = rest.split_once(" resumed>")?;
            return is_name(name).then_some(Self::Resumed(name, rest));
        }
        let (name, _) = text.split_once('(')?;
        if !is_name(name) {
            return None;
        }
        // On standard error, what strace says of itself may come between.
        if let Some((begun, _)) = text.split_once("strace: Process ")
            && text.ends_with(" attached")
        {
            return Some(Self::Unfinished(begun.trim_end()));
        }
        match text.strip_suffix("<unfinished ...>") {
            Some(begun) => Some(Self::Unfinished(begun.trim_end())),
            None => Some(Self::Call(text)),
        }
    }
}

fn is_name(name: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !name.is_empty() && name.len() < 64 && name.chars().all(is_letter)
}

/// Takes the number of the task off the front: `123 …` or `[pid 123] …`.
fn task(text: &str) -> (Option<u32>, &str) {
    if let Some(rest) = text.strip_prefix("[pid")
        && let Some((number, rest)) = rest.split_once(']')
        && let Ok(number) = number.trim().parse()
    {
        return (Some(number), rest.trim_start());
    }
    match text.split_once(char::is_whitespace) {
        Some((word, rest)) if word.bytes().all(|byte| byte.is_ascii_digit()) => {
            word.parse().map_or((None, text), |number| (Some(number), rest.trim_start()))
        }
        _ => (None, text),
    }
}

/// Takes the time off the front.
fn time(text: &str) -> (Time, &str) {
    let Some((word, rest)) = text.split_once(char::is_whitespace) else {
        return (Time::Unknown, text);
    };
    let rest = rest.trim_start();
    if let Some(time) = clock_time(word) {
        return (Time::At(time), rest);
    }
    match nanoseconds(word) {
        // No clock shows so early a time: it is the time since the line before.
        Some(time) if time < 100_000_000_000_000_000 => (Time::After(time), rest),
        Some(time) => (Time::At(time), rest),
        None => (Time::Unknown, text),
    }
}

/// `15:04:05` or `15:04:05.123456`.
fn clock_time(word: &str) -> Option<u64> {
    let (hours, rest) = word.split_once(':')?;
    let (minutes, seconds) = rest.split_once(':')?;
    let small = |word: &str| word.parse::<u64>().ok().filter(|number| *number < 60);
    let seconds =
        if seconds.contains('.') { nanoseconds(seconds)? } else { small(seconds)? * 1_000_000_000 };
    Some(
        (small(hours)? * 3600 + small(minutes)? * 60) * 1_000_000_000 + seconds.min(61_000_000_000),
    )
}

/// Seconds with a point as nanoseconds.
pub(super) fn nanoseconds(word: &str) -> Option<u64> {
    let (whole, part) = word.split_once('.')?;
    let digits = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(part) {
        return None;
    }
    let mut nanoseconds = 0_u64;
    for place in 0..9 {
        let digit = part.as_bytes().get(place).map_or(0, |digit| digit - b'0');
        nanoseconds = nanoseconds * 10 + u64::from(digit);
    }
    whole.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(nanoseconds)
}

/// A call that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FinishedCall<'l> {
    pub(super) name: &'l str,
    pub(super) arguments: Vec<&'l str>,
    pub(super) returned: Returned,
    /// Its duration in nanoseconds, if it is in the line.
    pub(super) duration: Option<u64>,
    /// What stands behind the number that was returned: with `-y`, the path of a new descriptor.
    pub(super) path: Option<Vec<u8>>,
}

/// What a call returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Returned {
    Value(u64),
    Error(i32),
    /// It did not return, or will be made again.
    Nothing,
}

impl<'l> FinishedCall<'l> {
    /// Takes a call apart.
    pub(super) fn new(text: &'l str) -> Option<Self> {
        let (name, rest) = text.split_once('(')?;
        let (arguments, rest) = arguments(rest)?;
        let rest = rest.trim_start().strip_prefix('=')?.trim();
        let (rest, duration) = match rest.rfind(" <") {
            Some(place) if rest.ends_with('>') => {
                let word = &rest[place + 2..rest.len() - 1];
                match nanoseconds(word) {
                    Some(duration) => (rest[..place].trim_end(), Some(duration)),
                    None => (rest, None),
                }
            }
            _ => (rest, None),
        };
        let returned = returned(rest)?;
        let path = super::values::descriptor(rest).and_then(|(_, path)| path);
        Some(Self { name: name.trim(), arguments, returned, duration, path })
    }
}

fn returned(text: &str) -> Option<Returned> {
    if text.starts_with('?') {
        return Some(Returned::Nothing);
    }
    let end = text.find(|c: char| c.is_whitespace() || c == '<').unwrap_or(text.len());
    let (number, rest) = text.split_at(end);
    if number == "-1" {
        let error = rest.split_whitespace().next()?;
        // Calls that the kernel makes again by itself.
        if error.starts_with("ERESTART") {
            return Some(Returned::Nothing);
        }
        return crate::constants::number(crate::constants::ERRORS, error).map(Returned::Error);
    }
    super::values::number(number).map(|number| Returned::Value(number.cast_unsigned()))
}

/// Arguments up to the parenthesis that ends them, and what follows it.
fn arguments(text: &str) -> Option<(Vec<&str>, &str)> {
    let bytes = text.as_bytes();
    let (mut found, mut from, mut at, mut depth) = (Vec::new(), 0, 0, 0_u32);
    while at < bytes.len() {
        match bytes[at] {
            b'"' => at = string_end(bytes, at)?,
            b'<' if is_decoration(bytes, at) => at = decoration_end(bytes, at)?,
            b'/' if bytes[at..].starts_with(b"/*") => at += text[at..].find("*/")? + 1,
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' if depth > 0 => depth -= 1,
            b',' if depth == 0 => {
                found.push(text[from..at].trim());
                from = at + 1;
            }
            b')' => {
                let last = text[from..at].trim();
                if !last.is_empty() || !found.is_empty() {
                    found.push(last);
                }
                return Some((found, &text[at + 1..]));
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// The quote that ends the string that begins at a place.
pub(super) fn string_end(bytes: &[u8], mut at: usize) -> Option<usize> {
    at += 1;
    loop {
        match bytes.get(at)? {
            b'"' => return Some(at),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// Whether `<` begins what `-y` says of a descriptor: it stands right behind a number or
/// `AT_FDCWD`.
fn is_decoration(bytes: &[u8], at: usize) -> bool {
    let before = at.checked_sub(1).and_then(|at| bytes.get(at));
    before.is_some_and(|byte| byte.is_ascii_digit() || *byte == b'D')
        && bytes.get(at + 1) != Some(&b'<')
}

fn decoration_end(bytes: &[u8], mut at: usize) -> Option<usize> {
    let mut depth = 0_u32;
    loop {
        match bytes.get(at)? {
            b'<' => depth += 1,
            // A socket: `127.0.0.1:80->127.0.0.1:5000`.
            b'>' if bytes.get(at.wrapping_sub(1)) == Some(&b'-') => {}
            b'>' if depth <= 1 => return Some(at),
            b'>' => depth -= 1,
            _ => {}
        }
        at += 1;
    }
}
