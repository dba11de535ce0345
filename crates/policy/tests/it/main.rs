//! Tests of the policy through its public API.

#[cfg(test)]
mod bash_lines;
#[cfg(test)]
mod drafts;
#[cfg(test)]
mod files;
#[cfg(test)]
mod guards;
#[cfg(test)]
mod hidden;
#[cfg(test)]
mod property;
#[cfg(test)]
mod table;
#[cfg(test)]
mod verdicts;
#[cfg(test)]
mod world;
