//! Building blocks of HTML: escaping, tables, sections.

use std::fmt::{Display, Write as _};

/// Text as HTML shows it, in elements and in attributes. Characters that are not allowed or would
/// be invisible are replaced.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(c),
            // Also those that turn the direction of what follows.
            c if c.is_control()
                || matches!(c, '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}') =>
            {
                out.push('\u{FFFD}');
            }
            c => out.push(c),
        }
    }
    out
}

/// Sentences: numbers and their signs stay together.
pub(super) fn prose(text: &str) -> String {
    escaped(text).replace(" %", "\u{a0}%").replace(" ×", "\u{a0}×")
}

/// A path, which may be broken behind slashes and underscores. Within a word it is broken only if
/// that is longer than the line.
pub(super) fn path(path: &str) -> String {
    let mut out = String::from("<span class=\"path\">");
    for part in path.split_inclusive(['/', '_']) {
        out.push_str(&escaped(part));
        if part.ends_with(['/', '_']) {
            out.push_str("<wbr>");
        }
    }
    out.push_str("</span>");
    out
}

/// A colour and what it stands for.
pub(super) fn key(class: &str, words: &str) -> String {
    format!(" <span class=\"entry\"><span class=\"key {class}\"></span>{}</span>", escaped(words))
}

/// A column of a table.
pub(super) struct Column {
    pub(super) name: &'static str,
    /// Numbers stand to the right.
    pub(super) number: bool,
}

/// A column of words.
pub(super) const fn word(name: &'static str) -> Column {
    Column { name, number: false }
}

/// A column of numbers.
pub(super) const fn number(name: &'static str) -> Column {
    Column { name, number: true }
}

/// A cell: HTML, and what it is sorted by if that is not its text.
pub(super) struct TableCell {
    html: String,
    order: Option<String>,
}

impl TableCell {
    /// A text.
    pub(super) fn text(text: impl AsRef<str>) -> Self {
        Self { html: escaped(text.as_ref()), order: None }
    }

    /// HTML as it is.
    pub(super) fn html(html: String) -> Self {
        Self { html, order: None }
    }

    /// A text that stands for a number.
    pub(super) fn number(text: impl AsRef<str>, order: impl Display) -> Self {
        Self { html: escaped(text.as_ref()), order: Some(order.to_string()) }
    }

    /// The same sorted by a number.
    pub(super) fn by(self, order: impl Display) -> Self {
        Self { order: Some(order.to_string()), ..self }
    }
}

/// A table in a box that scrolls by itself if it is too wide. The first cell of each row is its
/// heading.
pub(super) fn table(
    caption: &str,
    columns: &[Column],
    rows: impl IntoIterator<Item = Vec<TableCell>>,
    sortable: bool,
) -> String {
    let caption = escaped(caption);
    let mut out = format!(
        "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"{caption}\"><table{}>\
         <caption>{caption}</caption><thead><tr>",
        if sortable { " data-sortable" } else { "" }
    );
    for Column { name, number } in columns {
        let class = if *number { " class=\"n\"" } else { "" };
        let _ = write!(out, "<th scope=\"col\"{class}>{}</th>", escaped(name));
    }
    out.push_str("</tr></thead><tbody>");
    for row in rows {
        out.push_str("<tr>");
        for (place, (cell, Column { number, .. })) in row.into_iter().zip(columns).enumerate() {
            let class = if *number { " class=\"n\"" } else { "" };
            let order = cell
                .order
                .map_or(String::new(), |order| format!(" data-order=\"{}\"", escaped(&order)));
            let tag = if place == 0 { "th scope=\"row\"" } else { "td" };
            let end = if place == 0 { "th" } else { "td" };
            let _ = write!(out, "<{tag}{class}{order}>{}</{end}>", cell.html);
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div>");
    out
}

/// Something that is folded away at first.
pub(super) fn folded(summary: &str, content: &str) -> String {
    format!("<details><summary>{}</summary>{content}</details>", escaped(summary))
}

/// A part of the page with a heading.
pub(super) fn section(id: &str, heading: &str, lead: &str, content: &str) -> String {
    let lead = if lead.is_empty() {
        String::new()
    } else {
        format!("<p class=\"lead\">{}</p>", escaped(lead))
    };
    format!(
        "\n<section id=\"{id}\" aria-labelledby=\"{id}-h\"><h2 id=\"{id}-h\">{}</h2>{lead}{content}</section>",
        escaped(heading)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_text_is_html() {
        assert_eq!(
            escaped("<script>'\"&\u{202E}\0</script>"),
            "&lt;script&gt;&#39;&quot;&amp;\u{FFFD}\u{FFFD}&lt;/script&gt;"
        );
    }
}
