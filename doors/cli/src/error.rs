//! [`CommandError`]: what can go wrong in a command, with a hint on what to do next.
//!
//! An error is one sentence (what was attempted, on what, why it failed), a hint (what to try),
//! and, where a text was at fault, the text with a caret under the place. Which exit status it
//! means is decided here and nowhere else.

use std::error::Error;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use striate_comm::CommError;
use striate_datatype::notation::NotationError;
use striate_datatype::{Bytes, TypeError};
use striate_store::error::Cause;
use striate_store::remote::{CallError, HandshakeError, WireError};
use striate_store::s3::S3Error;
use striate_store::{ErrorKind, StoreError};
use thiserror::Error;

/// Characters of a text that are shown around the place of an error.
const EXCERPT: usize = 72;

#[derive(Debug, Error)]
pub(crate) enum CommandError {
    /// The description on the command line is not one.
    #[error("cannot read the description: {source}")]
    Notation { text: String, source: NotationError },
    /// More memory is needed than there is.
    #[error("{what} needs {} of memory, but {} are available", Bytes(*.needed), Bytes(*.available))]
    Memory { what: String, needed: u64, available: u64, hint: String },
    /// A file could not be written.
    #[error("cannot write {}: {source}", .path.display())]
    Write { path: PathBuf, source: io::Error },
    /// An argument that makes no sense.
    #[error("{message}")]
    Usage { message: String, hint: String },
    /// A file, or a server that holds a part of it.
    #[error("{source}")]
    Store { hint: String, source: StoreError },
    /// What was asked for was found out and printed, and not all is well.
    #[error("not all is well")]
    NotWell,
    /// Anything else that was attempted.
    #[error("{attempted}: {source}")]
    Failed { attempted: String, hint: String, source: Box<dyn Error + Send + Sync> },
}

impl From<CommError> for CommandError {
    fn from(error: CommError) -> Self {
        Self::failed("the ranks cannot continue", error, "")
    }
}

impl From<StoreError> for CommandError {
    fn from(source: StoreError) -> Self {
        let of_handshake = match source.cause() {
            Cause::Server(error) => handshake_hint(error.reason()),
            Cause::Objects(error) => object_hint(error),
            _ => None,
        };
        let hint = of_handshake.unwrap_or_else(|| match (source.kind(), source.cause()) {
            (ErrorKind::NotFound, Cause::Server(_)) => "'striate fs ls URL' shows what there is",
            (ErrorKind::Denied, Cause::Server(_)) => {
                "STRIATE_KEY_FILE names the file with the key that clients and servers share"
            }
            (_, Cause::Server(error)) if matches!(error.reason(), CallError::Connection(_)) => {
                "'striate fs health URL' shows which servers answer"
            }
            _ => "",
        });
        Self::Store { hint: hint.into(), source }
    }
}

/// What to do about an error of an object store.
const fn object_hint(error: &S3Error) -> Option<&'static str> {
    match error {
        S3Error::Denied(_) => Some(
            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are the credentials, AWS_ENDPOINT_URL and AWS_REGION the server",
        ),
        S3Error::NoKey | S3Error::NoBucket(_) => {
            Some("'striate fs ls s3://bucket/' shows what there is")
        }
        S3Error::Unreachable { .. } | S3Error::TimedOut(_) => {
            Some("AWS_ENDPOINT_URL says where the server is, and STRIATE_PATIENCE how long to wait")
        }
        S3Error::ReadOnly => Some("write it to a file system, and 'striate fs cp' publishes it"),
        S3Error::Changed => Some("repeat it: the object that is there now is read then"),
        _ => None,
    }
}

/// What to do about a handshake that failed, beyond what its error says.
const fn handshake_hint(reason: &CallError) -> Option<&'static str> {
    let CallError::Connection(WireError::Handshake(error)) = reason else { return None };
    match error {
        HandshakeError::ServerSpeaksTls => {
            Some("write striate+tls://; STRIATE_CA_FILE names the trusted certificates")
        }
        HandshakeError::ServerWithoutTls => {
            Some("write striate://, or start the server with --tls-cert and --tls-key")
        }
        HandshakeError::Certificate(_) => Some(
            "STRIATE_CA_FILE names the file with the trusted certificates: that of the \
             server, or of its authority",
        ),
        HandshakeError::OtherHost(_) => {
            Some("name the host in the URL as the certificate does, or give the server another one")
        }
        HandshakeError::ServerWithoutKey => {
            Some("start the server with --key-file, or unset STRIATE_KEY_FILE")
        }
        _ => None,
    }
}

impl CommandError {
    /// `attempted` failed because of `source`; `hint` says what to try, or is empty.
    pub(crate) fn failed(
        attempted: impl Into<String>,
        source: impl Into<Box<dyn Error + Send + Sync>>,
        hint: impl Into<String>,
    ) -> Self {
        Self::Failed { attempted: attempted.into(), hint: hint.into(), source: source.into() }
    }

    /// The command was called in a way that makes no sense.
    pub(crate) fn usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Usage { message: message.into(), hint: hint.into() }
    }

    /// Prints the error on standard error and gives the exit status.
    pub(crate) fn report(&self) -> ExitCode {
        // All ranks of a job fail alike; rank 0 prints it.
        if !crate::ranks::is_printing_rank() {
            crate::ranks::wait_for_printing_rank();
        } else if !matches!(self, Self::NotWell) {
            // If standard error is closed, the status is left.
            let _ = anstream::stderr().write_all(self.render().as_bytes());
        }
        ExitCode::from(self.status())
    }

    /// 1 if it failed, 2 if it was called wrongly.
    const fn status(&self) -> u8 {
        match self {
            Self::Notation { .. } | Self::Usage { .. } => 2,
            Self::Memory { .. }
            | Self::Write { .. }
            | Self::Store { .. }
            | Self::NotWell
            | Self::Failed { .. } => 1,
        }
    }

    fn render(&self) -> String {
        let error = Style::new().bold().fg_color(Some(AnsiColor::Red.into()));
        let hint = Style::new().bold().fg_color(Some(AnsiColor::Cyan.into()));
        let mut text = format!("{error}error:{error:#} {self}\n");
        if let Some((excerpt, column)) = self.excerpt() {
            let _ = writeln!(text, "\n    {excerpt}\n    {:column$}{error}^{error:#}\n", "");
        }
        let advice = self.hint();
        if !advice.is_empty() {
            let _ = writeln!(text, "  {hint}hint:{hint:#} {advice}");
        }
        text
    }

    fn hint(&self) -> String {
        match self {
            Self::Notation {
                source: NotationError::Type(source) | NotationError::Number { source, .. },
                ..
            } => type_hint(source).into(),
            Self::Notation { .. } => "'striate describe --help' shows the notation".into(),
            Self::Memory { hint, .. }
            | Self::Usage { hint, .. }
            | Self::Store { hint, .. }
            | Self::Failed { hint, .. } => hint.clone(),
            Self::NotWell => String::new(),
            Self::Write { .. } => "check that the directory exists and may be written to".into(),
        }
    }

    /// The text at fault around the place of the error, and the column of the place in it.
    fn excerpt(&self) -> Option<(String, usize)> {
        let Self::Notation { text, source } = self else { return None };
        match source {
            NotationError::Syntax { position, .. }
            | NotationError::Number { position, .. }
            | NotationError::TooDeep { position } => Some(excerpt(text, *position)),
            _ => None,
        }
    }
}

/// Cuts `text` to what fits on a line around byte `position`.
fn excerpt(text: &str, position: usize) -> (String, usize) {
    let column = text.char_indices().take_while(|(at, _)| *at < position).count();
    let skipped = column.saturating_sub(EXCERPT / 2);
    // Line breaks and the like would move the caret away from its place.
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let mut shown: String = text.chars().skip(skipped).take(EXCERPT).map(plain).collect();
    let mut column = column - skipped;
    if skipped > 0 {
        shown.insert_str(0, "... ");
        column += 4;
    }
    if text.chars().count() > skipped + EXCERPT {
        shown.push_str(" ...");
    }
    (shown, column)
}

/// What to try when a well-formed description stands for no type.
const fn type_hint(error: &TypeError) -> &'static str {
    match error {
        TypeError::Overflow { .. } => {
            "offsets are signed 64-bit numbers: use smaller counts, strides or sizes"
        }
        TypeError::TooManyLoops { .. } => "use fewer different parts, or lists of equal ones",
        TypeError::TooDeep { .. } => "write nested repetitions as one subarray",
        TypeError::Negative { .. } => {
            "counts and lengths are 0 or more; strides, displacements and bounds may be negative"
        }
        TypeError::Dimensions { .. } => "give every list one number per dimension",
        TypeError::Dimension { .. } => {
            "in each dimension, start and length together must stay within the size of the array"
        }
        TypeError::Rank { .. } => {
            "ranks count from 0; the grid has as many as its numbers multiplied"
        }
        _ => "'striate describe --help' shows the notation",
    }
}

#[cfg(test)]
mod tests {
    use striate_datatype::notation::Notation;

    use super::*;

    fn rendered(text: &str) -> String {
        let source = text.parse::<Notation>().and_then(|n| Ok(n.build()?)).unwrap_err();
        let error = CommandError::Notation { text: text.into(), source };
        anstream::adapter::strip_str(&error.render()).to_string()
    }

    fn assert_caret_under(text: &str, place: &str) {
        let rendered = rendered(text);
        let lines: Vec<&str> = rendered.lines().collect();
        let caret = lines.iter().position(|line| line.trim() == "^").expect("a caret");
        let column = lines[caret].find('^').unwrap();
        let below: String = lines[caret - 1].chars().skip(column).collect();
        assert!(below.starts_with(place), "{rendered}");
    }

    #[test]
    fn the_caret_stands_under_the_place() {
        assert_caret_under("vector(3, 2 of f6, stride=3)", "f6");
        assert_caret_under("vector(3, 2 of f64; stride=3)", ";");
        assert_caret_under("bytes(3", "");
        assert_caret_under("bytes(3) … bytes(4)", "…");
        assert_caret_under("bytes(3)\n\n  x", "x");
    }

    #[test]
    fn a_long_text_is_cut_around_the_place() {
        let long = format!("indexed([{}] of i23)", vec!["2 at 0"; 100].join(", "));
        assert_caret_under(&long, "i23");
        assert!(rendered(&long).lines().all(|line| line.chars().count() < 120));
        assert_caret_under(&format!("struct({long} at 0)"), "indexed");
    }

    #[test]
    fn what_stands_for_no_type_has_a_hint_of_its_own() {
        let text = rendered("subarray([4,6] of f32, [2,2] at [3,1])");
        assert!(text.starts_with("error: cannot read the description: subarray, dimension 0"));
        assert!(text.contains("  hint: in each dimension"), "{text}");
    }
}
