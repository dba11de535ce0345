//! Bodies of requests as differences: each repeats most of the one before.

use std::collections::VecDeque;

/// Number of bodies that later ones may refer to.
const MAX_KEPT: usize = 2;
/// Maximum number of consecutive differences: a viewer that keeps a limited number of messages
/// needs a whole body among them.
const CHAIN: u32 = 32;

/// The newest bodies, by the role of their requests.
#[derive(Debug, Default)]
pub(super) struct BodyHistory {
    next: u64,
    bodies: VecDeque<StoredBody>,
}

#[derive(Debug)]
struct StoredBody {
    key: u64,
    role: String,
    text: String,
    chain: u32,
}

/// A body: `prefix` UTF-16 units of the base, the text, `suffix` units of the base.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BodyDelta {
    pub(super) key: u64,
    pub(super) base: Option<u64>,
    pub(super) prefix: usize,
    pub(super) suffix: usize,
    pub(super) text: String,
}

impl BodyHistory {
    /// Forgets earlier bodies, so that later ones do not refer to them.
    pub(super) fn clear(&mut self) {
        self.bodies.clear();
    }

    pub(super) fn add(&mut self, role: &str, text: String) -> BodyDelta {
        self.next += 1;
        let key = self.next;
        let index = self.bodies.iter().position(|entry| entry.role == role);
        let earlier = index.and_then(|at| self.bodies.remove(at));
        let base = earlier.filter(|earlier| earlier.chain < CHAIN);
        let (delta, chain) = match base {
            Some(base) => (difference(key, &base, &text), base.chain + 1),
            None => {
                let text = text.clone();
                (BodyDelta { key, base: None, prefix: 0, suffix: 0, text }, 0)
            }
        };
        self.bodies.push_back(StoredBody { key, role: role.to_owned(), text, chain });
        while self.bodies.len() > MAX_KEPT {
            self.bodies.pop_front();
        }
        delta
    }
}

fn difference(key: u64, base: &StoredBody, text: &str) -> BodyDelta {
    let (old, new) = (base.text.as_bytes(), text.as_bytes());
    let same = |pairs: &mut dyn Iterator<Item = (&u8, &u8)>| {
        pairs.take_while(|(one, other)| one == other).count()
    };
    let prefix = text.floor_char_boundary(same(&mut old.iter().zip(new)));
    let (old_rest, new_rest) = (&old[prefix..], &new[prefix..]);
    let suffix = same(&mut old_rest.iter().rev().zip(new_rest.iter().rev()));
    let end = text.ceil_char_boundary(text.len() - suffix);
    let units = |text: &str| text.encode_utf16().count();
    BodyDelta {
        key,
        base: Some(base.key),
        prefix: units(&text[..prefix]),
        suffix: units(&text[end..]),
        text: text[prefix..end].to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn applied(base: &str, delta: &BodyDelta) -> String {
        let base: Vec<u16> = base.encode_utf16().collect();
        let head = String::from_utf16(&base[..delta.prefix]).expect("text");
        let tail = String::from_utf16(&base[base.len() - delta.suffix..]).expect("text");
        format!("{head}{}{tail}", delta.text)
    }

    #[test]
    fn body_delta_contains_only_the_new_part() {
        let mut bodies = BodyHistory::default();
        assert_eq!(bodies.add("main", r#"{"a":[1],"b":2}"#.into()).base, None);
        let delta = bodies.add("main", r#"{"a":[1,2],"b":2}"#.into());
        assert_eq!((delta.base, delta.text.as_str()), (Some(1), ",2"));
        assert_eq!(bodies.add("routing", "{}".into()).base, None);
        assert_eq!(bodies.add("main", "{}".into()).base, Some(2));
        bodies.clear();
        assert_eq!(bodies.add("main", "{}".into()).base, None);
    }

    proptest! {
        #[test]
        fn any_body_can_be_restored(one in "[aé𝄞\"]{0,8}", other in "[aé𝄞\"]{0,8}") {
            let mut bodies = BodyHistory::default();
            bodies.add("main", one.clone());
            let delta = bodies.add("main", other.clone());
            prop_assert_eq!(applied(&one, &delta), other);
        }
    }
}
