//! `parallax man`: pages generated from the definition of the arguments.

use std::io;
use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory as _};
use parallax_protocol::event::{Failure, FailureKind};

use crate::arguments::Arguments;
use crate::program_name::called_name;

/// Writes the man pages to a directory, or returns the page of the program. Returns the output to
/// print.
///
/// # Errors
/// Returns an error if a page cannot be written.
pub(crate) fn man(out: Option<&Path>) -> Result<String, Failure> {
    let name = called_name();
    let mut command = Arguments::command().display_name(name.clone()).bin_name(name.clone());
    command.build();
    let Some(out) = out else {
        let mut page = Vec::new();
        let rendered = clap_mangen::Man::new(command).render(&mut page);
        rendered.map_err(|error| write_failure(Path::new("-"), &error))?;
        return Ok(String::from_utf8_lossy(&page).into_owned());
    };
    std::fs::create_dir_all(out).map_err(|error| write_failure(out, &error))?;
    let mut written = Vec::new();
    write_pages(&command, &name, out, &mut written)?;
    Ok(written.iter().map(|path| format!("{}\n", path.display())).collect())
}

/// Writes the pages of a command and its subcommands.
fn write_pages(
    command: &Command,
    name: &str,
    out: &Path,
    written: &mut Vec<PathBuf>,
) -> Result<(), Failure> {
    let path = out.join(format!("{name}.1"));
    let page = clap_mangen::Man::new(command.clone().display_name(name.to_owned()));
    let mut text = Vec::new();
    page.render(&mut text).map_err(|error| write_failure(&path, &error))?;
    std::fs::write(&path, text).map_err(|error| write_failure(&path, &error))?;
    written.push(path);
    let is_public = |it: &&Command| !it.is_hide_set() && it.get_name() != "help";
    for inner in command.get_subcommands().filter(is_public) {
        write_pages(inner, &format!("{name}-{}", inner.get_name()), out, written)?;
    }
    Ok(())
}

fn write_failure(path: &Path, error: &io::Error) -> Failure {
    let message = format!("Failed to write {}: {error}", path.display());
    Failure { kind: FailureKind::Internal, message, status: None }
}
