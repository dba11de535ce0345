//! Development tasks: `cargo xtask dist` builds the packages, `cargo xtask docs` the documentation site,
//! and `cargo xtask messages` prints what users can read.
//!
//! Not part of the product: nothing here is compiled by `cargo build` in the root.

mod archive;
mod binary;
mod compile;
mod deb;
mod dependencies;
mod dist;
mod docs;
mod licenses;
mod manifests;
mod messages;
mod name_check;
mod npm;
mod package_files;
mod product;
mod report;
mod sbom;
mod site_links;
mod targets;
mod tool;

use clap::{Parser, Subcommand};

/// The command line.
#[derive(Debug, Parser)]
#[command(
    name = "cargo xtask",
    about = "Development tasks of Parallax",
    disable_version_flag = true
)]
struct XtaskArguments {
    #[command(subcommand)]
    task: XtaskCommand,
}

#[derive(Debug, Subcommand)]
enum XtaskCommand {
    /// Build the packages of all targets into `dist/`
    Dist(dist::DistOptions),
    /// Build the documentation site with mdBook
    Docs(docs::DocsOptions),
    /// Print the strings that users can see, with file and line
    Messages(messages::MessagesOptions),
}

fn main() -> anyhow::Result<()> {
    match XtaskArguments::parse().task {
        XtaskCommand::Dist(options) => dist::run(&options),
        XtaskCommand::Docs(options) => docs::run(&options),
        XtaskCommand::Messages(options) => messages::run(&options),
    }
}
