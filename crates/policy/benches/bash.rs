//! Measures the analysis of shell lines. The target is well below 1 ms.

use std::path::{Path, PathBuf};

use parallax_policy::bash::{SafeReadRoots, analyze, is_safe};

fn main() {
    divan::main();
}

const HERE_DOCUMENT: &str = "cat > src/a.py <<'EOF'\ndef f(x):\n    return x\nEOF\npython3 src/a.py && git add -A && git commit -m \"$(cat <<'EOF'\nfix: a thing\nEOF\n)\"";

const LINES: [(&str, &str); 5] = [
    ("one command", "git status"),
    ("a pipe", "grep -rn 'fn main' src | head -5"),
    ("a build", "cd web && npm ci && npm run build 2>&1 | tee build.log"),
    ("wrappers", "sudo env A=b timeout 5 bash -c 'make -j8 test && rm -rf target'"),
    ("here-documents", HERE_DOCUMENT),
];

#[divan::bench(args = ["one command", "a pipe", "a build", "wrappers", "here-documents"])]
fn line(bencher: divan::Bencher<'_, '_>, name: &str) {
    let text = LINES.iter().find(|(known, _)| *known == name).map_or("", |(_, text)| *text);
    let roots = [PathBuf::from("/w")];
    let place = SafeReadRoots { directory: Path::new("/w"), roots: &roots };
    bencher.bench_local(|| is_safe(&analyze(text), &place));
}
