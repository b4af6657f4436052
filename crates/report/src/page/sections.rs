//! The head of the page, the advice, what was measured, and the foot.

use std::fmt::Write as _;

use super::html::{TableCell, escaped, number, path, prose, section, table, word};
use crate::advice::Finding;
use crate::formatting::{counted, grouped, moment, percent, short, size, time};
use crate::model::Model;
use crate::summary;

/// Title, summary, and links to the parts.
pub(super) fn head(model: &Model, title: &str) -> String {
    let totals = &model.totals;
    let mut sentences = String::new();
    for sentence in summary::sentences(model) {
        let _ = write!(sentences, "<p>{}</p>", prose(&sentence));
    }
    let facts = [
        ("Length", time(model.recording.length_ns)),
        ("Time in calls", time(totals.sums.time_ns.all())),
        ("Read", size(totals.sums.bytes_read)),
        ("Written", size(totals.sums.bytes_written)),
        ("Calls", grouped(totals.sums.calls.all())),
        ("Files", grouped(totals.files)),
        ("Processes", grouped(totals.processes)),
    ];
    let mut list = String::new();
    for (name, value) in facts {
        let _ = write!(list, "<div><dt>{name}</dt><dd>{}</dd></div>", escaped(&value));
    }
    let mut complaints = String::new();
    if !model.recording.complaints.is_empty() {
        let some = model.recording.complaints.iter().take(20);
        let items: Vec<String> = some.map(|text| format!("<li>{}</li>", escaped(text))).collect();
        let items = items.concat();
        let more = model.recording.complaints.len().saturating_sub(20);
        let more = if more > 0 {
            format!("<li>and {} more</li>", grouped(more as u64))
        } else {
            String::new()
        };
        complaints = format!(
            "<aside class=\"warning\" aria-label=\"Some data could not be read\"><strong>Some data could not be read</strong><ul>{items}{more}</ul></aside>"
        );
    }
    let parts = [
        ("advice", "Advice", true),
        ("what-if", "What if", !model.what_if.is_empty()),
        ("darshan", "Job", model.darshan.is_some()),
        ("mpi-io", "MPI-IO", !model.mpi_io.is_empty()),
        ("timeline", "Timeline", !model.timeline.lanes.is_empty()),
        ("rate", "Rate", totals.sums.bytes() > 0),
        ("sizes", "Sizes", !model.sizes.is_empty()),
        ("offsets", "Offsets", model.files.iter().any(|row| row.heat.is_some())),
        ("files", "Files", !model.files.is_empty()),
        ("datasets", "Datasets", !model.datasets.is_empty()),
        ("processes", "Processes", !model.processes.is_empty()),
        ("functions", "Functions", !model.functions.is_empty()),
    ];
    let links: Vec<String> = parts
        .iter()
        .filter(|part| part.2)
        .map(|(id, name, _)| format!("<li><a href=\"#{id}\">{name}</a></li>"))
        .collect();
    let links = links.concat();
    format!(
        "<header><p class=\"kind\">Striate report <span>{}</span></p><h1>{}</h1>{complaints}\
         <div class=\"summary\">{sentences}</div><dl class=\"facts\">{list}</dl></header>\
         <nav aria-label=\"Parts of the report\"><ul>{links}</ul></nav>",
        escaped(&moment(model.recording.began_ns)),
        escaped(title)
    )
}

/// What stands out.
pub(super) fn advice(model: &Model) -> String {
    let mut content = String::new();
    if model.findings.is_empty() && !summary::is_without_calls(model) {
        content.push_str("<p class=\"well\">No rule found a significant share of the time.</p>");
    }
    for (n, finding) in model.findings.iter().enumerate() {
        content.push_str(&card(finding, n));
    }
    section("advice", "Advice", &summary::verdict(model), &content)
}

fn card(finding: &Finding, n: usize) -> String {
    let severity = if finding.is_refuted() { "refuted" } else { finding.severity.name() };
    let mut out = format!(
        "<article class=\"card {severity}\" aria-labelledby=\"finding-{n}\"><h3 id=\"finding-{n}\">{} \
         <span class=\"badge\">{severity}</span></h3><p class=\"figure\">{}</p>\
         <div class=\"columns\"><div><p>{}</p>",
        escaped(&finding.title),
        prose(&finding.figure),
        prose(&finding.sentence)
    );
    if !finding.files.is_empty() {
        let files: Vec<String> =
            finding.files.iter().map(|file| format!("<li>{}</li>", path(file))).collect();
        let _ = write!(
            out,
            "<p class=\"mostly\">Mostly in</p><ul class=\"paths\">{}</ul>",
            files.concat()
        );
    }
    let _ = write!(out, "<p><strong>Remedy.</strong> {}</p>", prose(&finding.help));
    if let Some(outcome) = finding.outcome() {
        let _ = write!(out, "<p><strong>{}</strong></p>", prose(&outcome));
    } else if let Some(estimate) = &finding.estimate {
        let _ = write!(
            out,
            "<p><strong>Estimated gain: {} of {}.</strong> <span class=\"soft\">{}</span></p>",
            percent(estimate.share),
            if finding.rule == "uneven-ranks" { "the run" } else { "the time in calls" },
            prose(&estimate.basis)
        );
    }
    let _ = write!(
        out,
        "<p class=\"rule\">The rule <em>{}</em> applies from {}.</p></div>",
        escaped(&finding.rule),
        prose(&finding.threshold)
    );
    if let Some(stack) = finding.stack.as_ref().filter(|_| !finding.is_refuted()) {
        let note = if stack.ready { "" } else { ", to be changed first" };
        let _ = write!(
            out,
            "<figure class=\"stack\"><figcaption>Stack: {}{note} <button type=\"button\" data-copy=\"stack-{n}\" data-script>Copy</button></figcaption>\
             <pre id=\"stack-{n}\" tabindex=\"0\" aria-label=\"Stack {}\">{}</pre><p class=\"note\">{}</p></figure>",
            escaped(&stack.name),
            escaped(&stack.name),
            escaped(&stack.text),
            prose(&finding.usage().unwrap_or_default())
        );
    }
    out.push_str("</div></article>");
    out
}

/// What was measured with stacks.
pub(super) fn what_if(model: &Model) -> String {
    if model.what_if.is_empty() {
        return String::new();
    }
    let seconds = |seconds: f64| time((seconds.max(0.0) * 1e9) as u64);
    let rows = model.what_if.iter().map(|answer| {
        let name = TableCell::text(&answer.candidate.name);
        match (&answer.measured, &answer.failed) {
            (Some(found), _) => vec![
                name,
                TableCell::text(seconds(found.call_seconds_without)),
                TableCell::text(seconds(found.call_seconds_with)),
                TableCell::text(format!("{} ×", short(found.gain()))),
                TableCell::text(format!(
                    "{} → {} ({} ×)",
                    seconds(found.seconds_without),
                    seconds(found.seconds_with),
                    short(found.run_gain())
                )),
                TableCell::text(match found.differences {
                    0 => "none".into(),
                    n => counted(n, "call", "calls"),
                }),
            ],
            (None, reason) => {
                let reason = reason.as_deref().unwrap_or("not measured");
                let mut cells = vec![
                    name,
                    TableCell::text("–"),
                    TableCell::text("–"),
                    TableCell::text("–"),
                    TableCell::text("–"),
                ];
                cells.push(TableCell::text(reason));
                cells
            }
        }
    });
    let columns = [
        word("stack"),
        number("calls without"),
        number("calls with"),
        number("as fast"),
        word("whole run"),
        word("other results"),
    ];
    let lead = "Measured by repeating the recording with and without each stack.";
    section("what-if", "What if", lead, &table("Stacks that were tried", &columns, rows, false))
}

/// What this page is made of.
pub(super) fn foot(model: &Model) -> String {
    format!(
        "<footer><p>Made by Striate {} from {}. Times of calls are summed over processes and threads. \
         Sizes are in powers of 1024.</p></footer>",
        env!("CARGO_PKG_VERSION"),
        path(&model.recording.path)
    )
}
