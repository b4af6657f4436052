//! [`check_name`]: valid names of files.
//!
//! A name is a path of components between slashes; directories exist only as parts of names. Every
//! file has exactly one spelling: what other systems would silently tidy up (`a//b`, `./a`, `a/`)
//! is refused, so that two spellings never mean two files. Only one leading slash is dropped, so
//! that `/a/b` is accepted.

use thiserror::Error;

/// Bytes a name may have.
pub const MAX_NAME: usize = 4096;

/// Bytes a component of a name may have.
pub const MAX_COMPONENT: usize = 255;

/// Why a text is not a valid name of a file.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NameError {
    /// Nothing, or only a slash.
    #[error("the name of a file cannot be empty")]
    Empty,
    /// It ends with a slash.
    #[error("the name {name:?} ends with a slash, as only a directory's would")]
    TrailingSlash {
        /// The name.
        name: String,
    },
    /// Two slashes with nothing between them.
    #[error("the name {name:?} has two slashes with nothing between them")]
    EmptyComponent {
        /// The name.
        name: String,
    },
    /// A component `.` or `..`.
    #[error("the name {name:?} has the component '{component}'; write the name without it")]
    Dots {
        /// The name.
        name: String,
        /// `.` or `..`.
        component: String,
    },
    /// A NUL, a line break or another control character.
    #[error("the name {name:?} has the control character {character:?} at byte {at}")]
    Control {
        /// The name.
        name: String,
        /// The character.
        character: char,
        /// Where it stands.
        at: usize,
    },
    /// More than [`MAX_NAME`] bytes.
    #[error("a name of {len} bytes is too long: at most {MAX_NAME}")]
    TooLong {
        /// Bytes of the name.
        len: usize,
    },
    /// A component of more than [`MAX_COMPONENT`] bytes.
    #[error("the component {component:?} has {} bytes: at most {MAX_COMPONENT}", component.len())]
    ComponentTooLong {
        /// The component.
        component: String,
    },
}

/// The one spelling of a file's name, or why it is none.
///
/// ```
/// use striate_server::catalog::check_name;
/// assert_eq!(check_name("/run 7/out.dat").unwrap(), "run 7/out.dat");
/// assert!(check_name("run//out.dat").is_err());
/// ```
pub fn check_name(text: &str) -> Result<String, NameError> {
    let name = text.strip_prefix('/').unwrap_or(text);
    if name.is_empty() {
        return Err(NameError::Empty);
    }
    if name.len() > MAX_NAME {
        return Err(NameError::TooLong { len: name.len() });
    }
    if let Some((at, character)) = name.char_indices().find(|(_, c)| c.is_control()) {
        return Err(NameError::Control { name: name.to_owned(), character, at });
    }
    if name.starts_with('/') || name.contains("//") {
        return Err(NameError::EmptyComponent { name: text.to_owned() });
    }
    if name.ends_with('/') {
        return Err(NameError::TrailingSlash { name: text.to_owned() });
    }
    for component in name.split('/') {
        if component == "." || component == ".." {
            let component = component.to_owned();
            return Err(NameError::Dots { name: name.to_owned(), component });
        }
        if component.len() > MAX_COMPONENT {
            return Err(NameError::ComponentTooLong { component: component.to_owned() });
        }
    }
    Ok(name.to_owned())
}

/// The directories a file of this (checked) name lies in, outermost first.
pub(super) fn ancestors(name: &str) -> impl Iterator<Item = &str> {
    name.match_indices('/').map(|(at, _)| &name[..at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_kept_but_for_one_leading_slash() {
        for name in ["a", "a/b", "run 7/größe.dat", "...", "a/.hidden", "..a", "\\", "a:b*?"] {
            assert_eq!(check_name(name).unwrap(), name);
            assert_eq!(check_name(&format!("/{name}")).unwrap(), name);
        }
    }

    #[test]
    fn every_other_spelling_is_refused() {
        let is = |text: &str, wanted: fn(&NameError) -> bool| {
            let error = check_name(text).unwrap_err();
            assert!(wanted(&error), "{text:?}: {error:?}");
        };
        for text in ["", "/"] {
            is(text, |e| matches!(e, NameError::Empty));
        }
        for text in ["a/", "/a/b/"] {
            is(text, |e| matches!(e, NameError::TrailingSlash { .. }));
        }
        for text in ["//", "//a", "a//b", "a/b//", "///"] {
            is(text, |e| matches!(e, NameError::EmptyComponent { .. }));
        }
        for text in [".", "..", "./a", "a/..", "a/./b", "/.."] {
            is(text, |e| matches!(e, NameError::Dots { .. }));
        }
        for text in ["\0", "a\nb", "a/\u{7f}", "\u{85}", "a\t/b"] {
            is(text, |e| matches!(e, NameError::Control { .. }));
        }
        assert_eq!(
            check_name("/ab\0").unwrap_err(),
            NameError::Control { name: "ab\0".to_owned(), character: '\0', at: 2 }
        );
    }

    #[test]
    fn lengths_are_counted_in_bytes() {
        let component = "ä".repeat(127) + "b";
        assert_eq!(component.len(), MAX_COMPONENT);
        check_name(&component).unwrap();
        let error = check_name(&format!("{component}c")).unwrap_err();
        assert!(error.to_string().ends_with("has 256 bytes: at most 255"), "{error}");
        let longest = format!("{}/", "c".repeat(255)).repeat(16);
        let longest = &longest[..MAX_NAME - 1];
        check_name(&format!("/{longest}d")).unwrap_err(); // its last component has 256 bytes
        let longest = format!("{}/d", &longest[..MAX_NAME - 2]);
        assert_eq!(longest.len(), MAX_NAME);
        check_name(&format!("/{longest}")).unwrap();
        assert_eq!(check_name(&format!("{longest}e")), Err(NameError::TooLong { len: 4097 }));
    }

    #[test]
    fn ancestors_are_the_directories() {
        assert_eq!(ancestors("a/b/c").collect::<Vec<_>>(), ["a", "a/b"]);
        assert_eq!(ancestors("a").count(), 0);
    }
}
