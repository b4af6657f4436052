//! The page in a real browser: content, interaction, light and dark, small screens.
#![cfg(feature = "peers")]
#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "browser/mod.rs"]
mod chromium;
mod scenario;

use std::path::PathBuf;

use chromium::Browser;
use scenario::{CREATE, MS, READ, Scenario, US};
use serde_json::Value;
use striate_report::what_if::{Candidate, Measured, StackTrial};
use striate_report::{Model, page};

/// Four ranks with small writes, reads, and files with names that want to be more than names.
fn model() -> Model {
    let mut scenario = Scenario::new();
    for rank in 0..4u32 {
        let mut program = scenario.program(Some(rank));
        let file = program.open(format!("/data/checkpoint.{rank}.dat"), CREATE, 300 * US);
        for n in 0..600u64 {
            program.write(&file, n * 1024, 1024, (40 + u64::from(rank) * 10) * US);
        }
        program.sync(&file, 3 * MS);
        program.close(&file, 20 * US);
        let name = "/data/<script>alert(1)</script>\"><img src=x onerror=alert(2)>.nc";
        let file = program.open_of_size(name, READ, 64 << 20, 100 * US);
        for n in 0..40u64 {
            program.read(&file, n << 20, 1 << 20, 2 * MS);
            program.think(MS);
        }
        program.close(&file, 20 * US);
        program.finish();
    }
    let mut model = scenario.model();
    let candidate = Candidate { name: "write-back".into(), stack: String::new() };
    let measured = Measured {
        seconds_without: 2.0,
        seconds_with: 1.5,
        call_seconds_without: 1.0,
        call_seconds_with: 0.25,
        differences: 0,
        rounds: 3,
        place: "/scratch".into(),
    };
    model.what_if.push(StackTrial { candidate, measured: Some(measured), failed: None });
    model
}

struct Page {
    browser: Browser,
    path: PathBuf,
    _directory: tempfile::TempDir,
}

impl Page {
    fn new(model: &Model) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("report.html");
        std::fs::write(&path, page::render(model)).unwrap();
        let mut browser = Browser::start();
        browser.resize(1200, 900);
        browser.load(&path);
        Self { browser, path, _directory: directory }
    }

    fn say(&mut self, expression: &str) -> Value {
        self.browser.evaluate(expression)
    }

    fn text(&mut self, expression: &str) -> String {
        self.say(expression).as_str().unwrap_or_default().to_owned()
    }
}

#[test]
fn the_page_says_what_the_model_says() {
    let mut page = Page::new(&model());
    let body = page.text("document.body.innerText");
    for words in [
        "Many small writes",
        "2,400 writes of 1 KiB on average",
        "kind = \"write-back\"",
        "4 processes (4 MPI ranks)",
        "<script>alert(1)</script>",
        "Processes over time",
        "Rate over time",
        "Sizes of requests",
        "Offsets over time",
        "4 ×",
    ] {
        assert!(body.contains(words), "{words} is missing in\n{body}");
    }
    assert_eq!(page.say("document.querySelectorAll('img').length"), 0);
    // For screen readers: landmarks, one title, headings in order, names of charts, captions.
    assert_eq!(page.say("document.querySelectorAll('main, header, nav, footer').length"), 4);
    assert_eq!(page.say("document.querySelectorAll('h1').length"), 1);
    let levels = "[...document.querySelectorAll('h1,h2,h3')].map(h => Number(h.tagName[1]))";
    assert_eq!(
        page.say(&format!("{levels}.every((n, i, all) => i === 0 || n <= all[i - 1] + 1)")),
        true
    );
    for expression in [
        "[...document.querySelectorAll('svg:not([aria-hidden])')].every(svg => svg.getAttribute('role') === 'img' && svg.getAttribute('aria-label'))",
        "[...document.querySelectorAll('table')].every(table => table.caption && table.caption.textContent)",
        "[...document.querySelectorAll('select, button')].every(c => c.labels?.length || c.textContent)",
        "[...document.querySelectorAll('[id]')].every((e, _, all) => all.filter(o => o.id === e.id).length === 1)",
        "[...document.querySelectorAll('nav a')].every(a => document.querySelector(a.getAttribute('href')))",
        "document.documentElement.lang === 'en'",
    ] {
        assert_eq!(page.say(expression), true, "{expression}");
    }
    assert_eq!(page.browser.complaints(), [""; 0]);
}

#[test]
fn a_file_is_chosen_and_tables_are_sorted() {
    let mut page = Page::new(&model());
    let shown = "[...document.querySelectorAll('#offsets .panel')].filter(p => p.offsetParent).map(p => p.id).join()";
    assert_eq!(page.text(shown), "file-0");
    page.say("(() => { const s = document.getElementById('file-choice'); s.selectedIndex = 2; s.dispatchEvent(new Event('change')); })()");
    assert_eq!(page.text(shown), "file-2");
    let sizes = "[...document.querySelectorAll('#sizes .panel')].filter(p => p.offsetParent).map(p => p.id).join()";
    page.say("(() => { const s = document.getElementById('sizes-choice'); s.value = 'sizes-1'; s.dispatchEvent(new Event('change')); })()");
    assert_eq!(page.text(sizes), "sizes-1");

    // By the keyboard: a press on the heading sorts, another one turns it around.
    let column = |place: u32| {
        format!(
            "[...document.querySelectorAll('#files tbody tr')].map(r => r.cells[{place}].dataset.order)"
        )
    };
    page.say("document.querySelectorAll('#files thead button')[5].focus()");
    page.browser.key("Enter");
    let sorted = |page: &mut Page, order: &str| {
        page.say(&format!(
            "{}.map(Number).every((v, i, all) => i === 0 || all[i - 1] {order} v)",
            column(5)
        ))
    };
    assert_eq!(sorted(&mut page, ">="), true);
    assert_eq!(
        page.text("document.querySelectorAll('#files thead th')[5].getAttribute('aria-sort')"),
        "descending"
    );
    page.browser.key(" ");
    assert_eq!(sorted(&mut page, "<="), true);
    assert_eq!(
        page.text("document.querySelectorAll('#files thead th')[5].getAttribute('aria-sort')"),
        "ascending"
    );
    page.say("document.querySelectorAll('#files thead button')[0].click()");
    let words = page.say(&column(0));
    let words: Vec<&str> = words.as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(words.len() == 5 && words.contains(&"/data/checkpoint.0.dat"), "{words:?}");
    assert_eq!(page.browser.complaints(), [""; 0]);
}

#[test]
fn charts_answer_to_the_pointer_and_to_keys() {
    let mut page = Page::new(&model());
    for chart in ["#rate .area", "#timeline .area", "#offsets .area", "#sizes .area"] {
        let place = page.say(&format!(
            "(() => {{ const a = document.querySelector('{chart}'); a.scrollIntoView({{ block: 'center' }}); const b = a.getBoundingClientRect(); return [b.left + b.width / 2, b.top + b.height / 2]; }})()"
        ));
        let at = |n: usize| place[n].as_f64().unwrap();
        page.browser.point(at(0), at(1));
        assert_eq!(page.say("document.getElementById('tip').hidden"), false, "{chart}");
        let said = page.text("document.getElementById('tip').textContent");
        assert!(
            said.contains(':') && !said.contains("undefined") && !said.contains("NaN"),
            "{said}"
        );
        page.browser.point(5.0, 5.0);
        page.say(&format!("document.querySelector('{chart}').focus()"));
        let now = format!("document.querySelector('{chart}').getAttribute('aria-valuenow')");
        page.browser.key("End");
        let end = page.text(&now);
        page.browser.key("ArrowRight");
        assert_eq!(page.text(&now), end);
        let value =
            page.text(&format!("document.querySelector('{chart}').getAttribute('aria-valuetext')"));
        assert!(value.contains(':') && !value.contains("undefined"), "{value}");
    }
    assert_eq!(page.browser.complaints(), [""; 0]);
}

#[test]
fn all_controls_are_reached_by_tab_in_their_order_and_can_be_seen() {
    let mut page = Page::new(&model());
    let mut order = Vec::new();
    for _ in 0..60 {
        page.browser.key("Tab");
        let place = page.say(
            "(() => { const e = document.activeElement; const s = getComputedStyle(e); \
             return [[...document.querySelectorAll('*')].indexOf(e), e === document.body || (s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) >= 2)]; })()",
        );
        assert_eq!(
            place[1],
            true,
            "focus cannot be seen: {}",
            page.text("document.activeElement.outerHTML.slice(0, 200)")
        );
        order.push(place[0].as_i64().unwrap());
    }
    let first: Vec<i64> = order.iter().copied().take_while(|place| *place > 0).take(50).collect();
    assert!(first.len() > 20 && first.is_sorted(), "{order:?}");
}

#[test]
fn it_fits_a_phone_and_all_widths_between() {
    let mut page = Page::new(&model());
    for width in [360u32, 480, 700, 1000, 1600] {
        page.browser.resize(width, 800);
        let path = page.path.clone();
        page.browser.load(&path);
        let wide = page.say("document.documentElement.scrollWidth").as_u64().unwrap();
        let who = "[...document.querySelectorAll('body *')].filter(e => !e.closest('.scroll') && e.getBoundingClientRect().right > innerWidth + 1).map(e => e.className + ' ' + e.textContent.slice(0, 30)).slice(0, 5).join(' | ')";
        assert!(wide <= u64::from(width), "{wide} at {width}: {}", page.text(who));
        // Labels of an axis do not lie on each other.
        let crossing = "[...document.querySelectorAll('.acrosses, .ups')].filter(a => a.offsetParent).map(a => [...a.children].filter(s => getComputedStyle(s).display !== 'none').map(s => s.getBoundingClientRect())).filter(all => all.some((b, i) => all.some((o, j) => j > i && b.left < o.right && o.left < b.right && b.top < o.bottom && o.top < b.bottom))).length";
        assert_eq!(page.say(crossing), 0, "labels cross at {width}");
    }
    assert_eq!(page.browser.complaints(), [""; 0]);
}

/// Requests of all sizes, and many files with long paths.
fn crowded() -> Model {
    let mut scenario = Scenario::new();
    let mut program = scenario.program(None);
    let file = program.open("/scratch/all_sizes.dat", CREATE, US);
    for power in 0..34u32 {
        program.write(&file, 0, 1 << power, MS);
    }
    for n in 0..60u64 {
        let path = format!(
            "/scratch/projects/climate_of_the_north/run_{n:04}/member_{n}/output_of_the_year.nc"
        );
        let file = program.open_of_size(path, READ, 4096, US);
        program.read(&file, 0, 4096, (100 + n) * US);
        program.close(&file, US);
    }
    program.finish();
    scenario.model()
}

#[test]
fn labels_paths_and_length_are_right_at_the_width_of_a_desktop() {
    let mut page = Page::new(&crowded());
    for (width, scheme) in [(1280u32, "light"), (1280, "dark"), (1000, "light"), (700, "light")] {
        page.browser.resize(width, 900);
        page.browser.media(scheme, "screen");
        let path = page.path.clone();
        page.browser.load(&path);
        let crossing = "[...document.querySelectorAll('.acrosses, .ups')].filter(a => a.offsetParent).map(a => [...a.children].filter(s => getComputedStyle(s).display !== 'none').map(s => s.getBoundingClientRect())).filter(all => all.some((b, i) => all.some((o, j) => j > i && b.left < o.right + 2 && o.left < b.right + 2 && b.top < o.bottom && o.top < b.bottom))).length";
        assert_eq!(page.say(crossing), 0, "labels cross at {width}");
        // Between the places at which a path may be broken, it is on one line.
        let broken = "[...document.querySelectorAll('.path')].filter(p => p.offsetParent).flatMap(p => [...p.childNodes]).filter(n => n.nodeType === 3 && !n.textContent.includes(' ')).filter(n => { const r = document.createRange(); r.selectNodeContents(n); return r.getClientRects().length > 1; }).map(n => n.textContent).join(' ')";
        assert_eq!(page.text(broken), "", "at {width}");
        let high = page.say("document.documentElement.scrollHeight").as_u64().unwrap();
        assert!(width < 1280 || high < 5000, "{high} px");
        // What is strong in the light is bright in the dark.
        assert!(!page.text("document.body.innerText").contains("darker"));
    }
    assert_eq!(page.browser.complaints(), [""; 0]);
}

/// The contrast of all texts with what is behind them, as WCAG counts it: the least one.
const CONTRAST: &str = r"(() => {
    const parse = (text) => (text.match(/[\d.]+/g) || []).map(Number);
    const light = ([r, g, b]) => [r, g, b].map((v) => v / 255).map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
        .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
    const behind = (e) => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c.length === 3 || c[3] === 1) return c; } return [255, 255, 255]; };
    let least = [99, ''];
    for (const e of document.querySelectorAll('body *')) {
        if (!e.offsetParent || e.closest('svg') || ![...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim())) continue;
        const [a, b] = [light(parse(getComputedStyle(e).color)), light(behind(e))];
        const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        if (ratio < least[0]) least = [ratio, e.className + ': ' + e.textContent.slice(0, 40)];
    }
    return least;
})()";

#[test]
fn light_and_dark_can_be_read() {
    let mut page = Page::new(&model());
    let mut papers = Vec::new();
    for scheme in ["light", "dark"] {
        page.browser.media(scheme, "screen");
        let least = page.say(CONTRAST);
        assert!(least[0].as_f64().unwrap() >= 4.5, "{scheme}: {least}");
        papers.push(page.text("getComputedStyle(document.body).backgroundColor"));
        // What charts are drawn with stands out by 3 at least.
        let drawn = page.say(
            "(() => { const s = getComputedStyle(document.documentElement); const hex = (n) => s.getPropertyValue(n).trim(); \
             const light = (h) => [1, 3, 5].map((i) => parseInt(h.slice(i, i + 2), 16) / 255).map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4).reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0); \
             const on = light(hex('--card')); return ['--read', '--write', '--sync', '--metadata', '--plain'].map((n) => light(hex(n))).map((v) => (Math.max(v, on) + 0.05) / (Math.min(v, on) + 0.05)).every((r) => r >= 3); })()",
        );
        assert_eq!(drawn, true, "{scheme}");
    }
    assert_ne!(papers[0], papers[1]);
    page.browser.media("dark", "print");
    assert_eq!(page.text("getComputedStyle(document.body).backgroundColor"), "rgb(255, 255, 255)");
}

#[test]
fn an_empty_recording_makes_a_page() {
    let mut scenario = Scenario::new();
    scenario.program(None).finish();
    let mut page = Page::new(&scenario.model());
    let body = page.text("document.body.innerText");
    assert!(
        body.contains("Nothing was recorded.") && body.contains("Nothing stands out."),
        "{body}"
    );
    assert_eq!(page.browser.complaints(), [""; 0]);
}
