//! Mooncake's priority matrix: for each place of memory the NICs that are preferred, and the others that will do, as JSON:
//! `{"cpu:0":[["mlx5_0"],["mlx5_1"]],"cuda:0":[["mlx5_1"],["mlx5_0"]]}`. Read strictly, every fault of a text at once;
//! written as Mooncake writes it.
//! Deliberately without any judgement of the machine: names stand for whatever has them.

use std::collections::BTreeMap;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;

use crate::segments;

/// Where memory lies, as a matrix names it. In order: what the list of a file sorts by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Location {
    /// Anywhere (`*`).
    Any,
    /// Memory of a NUMA node (`cpu:N`).
    Cpu(u16),
    /// Memory of a GPU (`cuda:N`).
    Gpu(u16),
}

impl Location {
    /// From its name.
    pub fn parse(name: &str) -> Option<Self> {
        if name == "*" {
            return Some(Self::Any);
        }
        if let Some(gpu) = segments::gpu(name) {
            return Some(Self::Gpu(u16::try_from(gpu).ok()?));
        }
        let digits = name.strip_prefix("cpu:")?;
        // One way to write each: `cpu:00` beside `cpu:0` would be the same place twice.
        let node = digits.parse().ok().filter(|node: &u16| *node < 1024 && node.to_string() == digits);
        node.map(Self::Cpu)
    }
}

impl std::fmt::Display for Location {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Any => f.write_str("*"),
            Self::Cpu(node) => write!(f, "cpu:{node}"),
            Self::Gpu(gpu) => write!(f, "cuda:{gpu}"),
        }
    }
}

/// The NICs of one place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lists {
    /// Those that are used as long as one of them can be.
    pub preferred: Vec<String>,
    /// Those that will do.
    pub others: Vec<String>,
}

/// See the file's head.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matrix(pub BTreeMap<Location, Lists>);

/// What is wrong with a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// One line, no full stop.
    pub(crate) why: String,
    /// What to write instead.
    pub(crate) help: &'static str,
}

const FORM: &str =
    "write {\"cpu:0\": [[\"mlx5_0\"], [\"mlx5_1\"]]}: for each place the preferred NICs, then the others";

fn fault(why: impl Into<String>, help: &'static str) -> Fault {
    Fault { why: why.into(), help }
}

/// Reads a text.
pub(crate) fn read(text: &str) -> Result<Matrix, Vec<Fault>> {
    // Some editors begin a file with it; it means nothing.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let Places(places) = match serde_json::from_str(text) {
        Ok(places) => places,
        Err(error) if error.is_data() => return Err(vec![fault("it is no JSON object", FORM)]),
        // Says line and column.
        Err(error) => return Err(vec![fault(format!("it is no JSON: {error}"), FORM)]),
    };
    let (mut matrix, mut faults) = (Matrix::default(), Vec::new());
    for (at, (name, value)) in places.iter().enumerate() {
        if places[..at].iter().any(|(earlier, _)| earlier == name) {
            faults.push(fault(format!("it names `{name}` twice"), "name each place once"));
            continue;
        }
        let Some(location) = Location::parse(name) else {
            let why = format!("`{name}` is no place of memory");
            faults.push(fault(why, "write \"cpu:0\" for a NUMA node, \"cuda:0\" for a GPU, \"*\" for any"));
            continue;
        };
        match lists(name, value) {
            Ok(lists) => _ = matrix.0.insert(location, lists),
            Err(fault) => faults.push(fault),
        }
    }
    if places.is_empty() {
        faults.push(fault("it names no place", FORM));
    }
    if faults.is_empty() { Ok(matrix) } else { Err(faults) }
}

/// An object with all of its keys, those that come twice included: a map would keep the last.
struct Places(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Places {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Each;
        impl<'de> Visitor<'de> for Each {
            type Value = Places;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Places, A::Error> {
                let mut places = Vec::new();
                while let Some(place) = map.next_entry()? {
                    places.push(place);
                }
                Ok(Places(places))
            }
        }
        from.deserialize_map(Each)
    }
}

fn lists(place: &str, value: &Value) -> Result<Lists, Fault> {
    let pair = value.as_array().map(Vec::as_slice);
    let Some([preferred, others]) = pair else {
        return Err(fault(format!("`{place}` is not an array of two arrays"), FORM));
    };
    let lists = Lists { preferred: names(place, preferred)?, others: names(place, others)? };
    let all: Vec<&String> = lists.preferred.iter().chain(&lists.others).collect();
    if let Some((_, twice)) = all.iter().enumerate().find(|(at, name)| all[..*at].contains(name)) {
        return Err(fault(format!("`{place}` lists `{twice}` twice"), "name a NIC once for a place"));
    }
    if all.is_empty() {
        return Err(fault(format!("`{place}` lists no NIC"), "name at least one, or leave the place out"));
    }
    Ok(lists)
}

fn names(place: &str, value: &Value) -> Result<Vec<String>, Fault> {
    let one = |name: &Value| {
        let name = name.as_str().filter(|name| !name.is_empty());
        name.map(str::to_owned).ok_or_else(|| fault(format!("`{place}` lists what is no name"), FORM))
    };
    let items =
        value.as_array().ok_or_else(|| fault(format!("`{place}` is not an array of two arrays"), FORM))?;
    items.iter().map(one).collect()
}

impl Matrix {
    /// As Mooncake writes it: one line, places in order of their names as text, with a line break at its end.
    pub fn to_json(&self) -> String {
        let lists = |lists: &Lists| Value::from(vec![lists.preferred.clone(), lists.others.clone()]);
        let places: BTreeMap<String, Value> =
            self.0.iter().map(|(location, nics)| (location.to_string(), lists(nics))).collect();
        format!("{}\n", serde_json::json!(places))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"{"cpu:0":[["mlx5_0"],["mlx5_1"]],"cuda:0":[["mlx5_1"],["mlx5_0"]]}"#;

    /// What is read is written as it was, in Mooncake's order of places: that of their names as text.
    #[test]
    fn there_and_back() {
        let matrix = read(TEXT).unwrap();
        assert_eq!(matrix.0[&Location::Gpu(0)].preferred, ["mlx5_1"]);
        assert_eq!(matrix.to_json(), format!("{TEXT}\n"));
        let many = read(r#"{ "cpu:2": [[], ["b"]], "cpu:10": [["a"], []], "*": [["a", "b"], []] }"#).unwrap();
        assert_eq!(
            many.to_json(),
            "{\"*\":[[\"a\",\"b\"],[]],\"cpu:10\":[[\"a\"],[]],\"cpu:2\":[[],[\"b\"]]}\n"
        );
        assert_eq!(read(&many.to_json()), Ok(many));
        assert_eq!(read(&format!("\u{feff}{TEXT}")), Ok(matrix), "a byte order mark");
    }

    /// Every fault of a text is told, each with what to write instead.
    #[test]
    fn faults() {
        let whys = |text: &str| -> Vec<String> {
            let faults = read(text).unwrap_err();
            faults.into_iter().inspect(|f| assert!(f.help.len() > 10)).map(|f| f.why).collect()
        };
        assert!(whys("{").remove(0).contains("line 1 column 1"), "{:?}", whys("{"));
        assert_eq!(whys("[]"), ["it is no JSON object"]);
        assert_eq!(whys("{}"), ["it names no place"]);
        let several = whys(
            r#"{"cpu:x": [[], []], "cpu:1": [["a"]], "cpu:2": [["a"], ["a"]], "cpu:3": [[], []], "cpu:4": [[1], []], "cuda:0": [["a"], "b"]}"#,
        );
        assert_eq!(
            several,
            [
                "`cpu:x` is no place of memory",
                "`cpu:1` is not an array of two arrays",
                "`cpu:2` lists `a` twice",
                "`cpu:3` lists no NIC",
                "`cpu:4` lists what is no name",
                "`cuda:0` is not an array of two arrays",
            ]
        );
        let twice = whys(r#"{"cpu:0": [["a"], []], "cpu:00": [["b"], []], "cpu:0": [["c"], []]}"#);
        assert_eq!(twice, ["`cpu:00` is no place of memory", "it names `cpu:0` twice"]);
    }
}
