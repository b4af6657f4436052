//! A model as one self-contained HTML page, without network access or fonts.
//!
//! Charts are drawn here, as SVG that is stretched to the available width, with labels in HTML
//! beside it, so that text keeps its size on any screen. The script only adds: tooltips, the choice
//! of a file, sorting. Each chart has a table with its numbers.

mod axis;
mod charts;
mod darshan;
mod datasets;
mod heat;
mod html;
mod layers;
mod sections;
mod tables;
mod timeline;

use self::html::escaped;
use crate::model::Model;
use crate::summary;

const STYLE: &str = include_str!("page/style.css");
const SCRIPT: &str = include_str!("page/script.js");

/// The page.
pub fn render(model: &Model) -> String {
    let title = summary::title(model);
    let body = [
        sections::head(model, &title),
        "<main id=\"main\" tabindex=\"-1\">".into(),
        sections::advice(model),
        sections::what_if(model),
        darshan::log(model),
        layers::calls(model),
        timeline::section(model),
        charts::rate(model),
        charts::sizes(model),
        heat::section(model),
        tables::files(model),
        datasets::section(model),
        tables::processes(model),
        tables::functions(model),
        charts::concurrency(model),
        "</main>".into(),
        sections::foot(model),
    ];
    let body = body.concat();
    let title = escaped(&title);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
         script-src 'unsafe-inline'; img-src data:\">\n\
         <link rel=\"icon\" href=\"data:,\">\n<title>{title} – Striate report</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n\
         <a class=\"skip\" href=\"#main\">Skip to the report</a>\n{body}\n\
         <div id=\"tip\" aria-hidden=\"true\" hidden></div>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n"
    )
}
