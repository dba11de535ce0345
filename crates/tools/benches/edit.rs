//! Benchmarks finding the text of an edit.

use parallax_tools::replace::{SourceText, find};

fn main() {
    divan::main();
}

/// Returns a file with `lines` lines that resemble code.
fn file(lines: usize) -> String {
    (0..lines).map(|n| format!("    let value_{n} = compute({n}, \"text {}\");\n", n * 7)).collect()
}

#[divan::bench(args = [200, 5_000, 50_000])]
fn exact(bencher: divan::Bencher, lines: usize) {
    let text = file(lines);
    let old = format!("let value_{} = compute", lines - 10);
    bencher.bench(|| find(&SourceText::new(&text), &old, "let x"));
}

#[divan::bench(args = [200, 5_000, 50_000])]
fn with_other_whitespace(bencher: divan::Bencher, lines: usize) {
    let text = file(lines);
    let n = lines - 10;
    let old = format!("\tlet value_{n} = compute({n}, \"text {}\");\n", n * 7);
    bencher.bench(|| find(&SourceText::new(&text), &old, "let x"));
}

/// Every place begins like the old text.
#[divan::bench(sample_count = 5)]
fn almost_everywhere(bencher: divan::Bencher) {
    let line = "    assert_eq!(left_side_of_it, right_side_of_it);";
    let text = format!("{line}\n").repeat(50_000);
    let old = format!("{line}\n").repeat(20) + "missing";
    bencher.bench(|| find(&SourceText::new(&text), &old, "x"));
}

#[divan::bench(sample_count = 5)]
fn without_a_match(bencher: divan::Bencher) {
    let text = file(20_000);
    let old = file(3).replace("compute", "something_else").replace("value", "variable");
    bencher.bench(|| find(&SourceText::new(&text), &old, "x"));
}
