//! Errors of the library underneath, as [`S3Error`].

use std::error::Error;

use object_store::client::{HttpError, HttpErrorKind};

use super::S3Error;

pub(super) fn translate(error: &object_store::Error, endpoint: &str) -> S3Error {
    use object_store::Error as Library;
    let text = |source: &(dyn Error + Send + Sync)| code(&source.to_string());
    match error {
        Library::NotFound { .. } => S3Error::NoKey,
        Library::Precondition { .. } | Library::NotModified { .. } => S3Error::Changed,
        Library::PermissionDenied { source, .. } | Library::Unauthenticated { source, .. } => {
            S3Error::Denied(text(source.as_ref()))
        }
        _ => match http(error) {
            Some(http)
                if matches!(http.kind(), HttpErrorKind::Connect | HttpErrorKind::Timeout) =>
            {
                S3Error::Unreachable { endpoint: endpoint.to_owned(), reason: innermost(http) }
            }
            Some(http) => S3Error::Failed(innermost(http)),
            None => S3Error::Failed(code(&innermost(error))),
        },
    }
}

fn http(error: &object_store::Error) -> Option<&HttpError> {
    let mut link: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = link {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        link = error.source();
    }
    None
}

/// What the last link of the chain says: the others repeat it.
pub(super) fn innermost(error: &(dyn Error + 'static)) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}

/// The code of a server's answer, for people; another text as it is, on one line.
pub(super) fn code(text: &str) -> String {
    let element = |name: &str| {
        let (_, rest) = text.split_once(&format!("<{name}>"))?;
        rest.split_once(&format!("</{name}>")).map(|(content, _)| content.trim())
    };
    match (element("Code"), element("Message")) {
        (Some(code), Some(message)) => format!("{code}: {message}"),
        (Some(code), None) => code.to_owned(),
        _ => text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(300).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_of_an_answer_is_found() {
        let answer = "x <Error><Code>SlowDown</Code><Message>later\n</Message></Error>";
        assert_eq!(code(answer), "SlowDown: later");
        assert_eq!(code("<Code>A</Code>"), "A");
        assert_eq!(code("no\n xml"), "no xml");
        assert_eq!(code("<Code>open"), "<Code>open");
    }
}
