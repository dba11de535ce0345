//! Measures checkpoints: of an edit (target: under 5 ms), and of the first and later commands in a
//! repository with 5,000 files.

use std::fs;
use std::path::{Path, PathBuf};

use parallax_protocol::checkpoint::WriteScope;
use parallax_store::{BlobReader, CheckpointOptions, Checkpoints};

fn main() {
    divan::main();
}

/// A committed repository with 5,000 files in 500 directories.
struct Repository {
    folder: tempfile::TempDir,
    working_directory: PathBuf,
}

#[expect(clippy::disallowed_methods, reason = "a benchmark makes a real repository")]
fn git(folder: &Path, arguments: &[&str]) {
    let mut command = std::process::Command::new("git");
    command.current_dir(folder).args(["-c", "user.name=a", "-c", "user.email=a@b"]);
    let _ = command.args(arguments).output();
}

impl Repository {
    fn new(attributes: Option<&str>) -> std::io::Result<Self> {
        let folder = tempfile::tempdir()?;
        let working_directory = folder.path().canonicalize()?.join("work");
        for number in 0..500 {
            let inner = working_directory.join(format!("part{}/module{number}", number % 20));
            fs::create_dir_all(&inner)?;
            for file in 0..10 {
                let text = format!("// {number} {file}\n").repeat(300);
                fs::write(inner.join(format!("source{file}.rs")), text)?;
            }
        }
        fs::write(working_directory.join(".gitignore"), "target/\n*.log\n.env\n")?;
        if let Some(text) = attributes {
            fs::write(working_directory.join(".gitattributes"), text)?;
        }
        fs::write(working_directory.join(".env"), "KEY=1")?;
        git(&working_directory, &["init", "-q"]);
        std::thread::sleep(std::time::Duration::from_millis(50));
        git(&working_directory, &["add", "-A"]);
        git(&working_directory, &["commit", "-qm", "all"]);
        std::thread::sleep(std::time::Duration::from_millis(50));
        Ok(Self { folder, working_directory })
    }

    fn checkpoints(&self, store: &str) -> Checkpoints {
        let folder = self.folder.path().join(store);
        let roots = vec![self.working_directory.clone()];
        let mut options = CheckpointOptions::new(folder, "p".into(), "s".into(), roots);
        options.blobs = Some(BlobReader::new(|_, _| Ok(Vec::new())));
        Checkpoints::open(options)
    }
}

fn command(checkpoints: &Checkpoints) -> usize {
    let Ok(mark) = checkpoints.begin_command(1) else { return 0 };
    checkpoints.end_command(mark, &WriteScope::default()).map_or(0, |changes| changes.changed.len())
}

#[divan::bench(sample_count = 200, sample_size = 1)]
fn edit_begin_and_end(bencher: divan::Bencher<'_, '_>) {
    let Ok(repository) = Repository::new(None) else { return };
    let checkpoints = repository.checkpoints("store");
    let path = [repository.working_directory.join("part1/module1/source1.rs")];
    let mut number = 0;
    bencher.bench_local(|| {
        number += 1;
        let mark = checkpoints.begin_edit(number, &path);
        let _ = fs::write(&path[0], format!("// edit {number}\n").repeat(1000));
        mark.map(|mark| checkpoints.end_edit(mark))
    });
}

#[divan::bench(sample_count = 10, sample_size = 1)]
fn command_first_in_clean_repository(bencher: divan::Bencher<'_, '_>) {
    let Ok(repository) = Repository::new(None) else { return };
    let mut number = 0;
    bencher.bench_local(|| {
        number += 1;
        repository.checkpoints(&format!("store{number}")).begin_command(1).is_ok()
    });
}

#[divan::bench(sample_count = 20, sample_size = 1)]
fn command_later_begin(bencher: divan::Bencher<'_, '_>) {
    let Ok(repository) = Repository::new(None) else { return };
    let checkpoints = repository.checkpoints("store");
    command(&checkpoints);
    bencher.bench_local(|| checkpoints.begin_command(1).is_ok());
}

#[divan::bench(sample_count = 20, sample_size = 1)]
fn command_later_begin_and_end(bencher: divan::Bencher<'_, '_>) {
    let Ok(repository) = Repository::new(None) else { return };
    let checkpoints = repository.checkpoints("store");
    command(&checkpoints);
    bencher.bench_local(|| command(&checkpoints));
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn command_first_where_line_ends_are_converted(bencher: divan::Bencher<'_, '_>) {
    let Ok(repository) = Repository::new(Some("* text=auto\n")) else { return };
    let mut number = 0;
    bencher.bench_local(|| {
        number += 1;
        repository.checkpoints(&format!("store{number}")).begin_command(1).is_ok()
    });
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn command_first_without_git(bencher: divan::Bencher<'_, '_>) {
    let Ok(repository) = Repository::new(None) else { return };
    let _ = fs::remove_dir_all(repository.working_directory.join(".git"));
    let mut number = 0;
    bencher.bench_local(|| {
        number += 1;
        repository.checkpoints(&format!("store{number}")).begin_command(1).is_ok()
    });
}
