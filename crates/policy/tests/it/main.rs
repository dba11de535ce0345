//! The policy as its callers see it.

#[cfg(test)]
mod hidden;
#[cfg(test)]
mod property;
#[cfg(test)]
mod table;
#[cfg(test)]
mod world;
