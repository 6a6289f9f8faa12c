//! What a set-up of Mooncake says: names with values, and where each was said. Variables of a file or of this process,
//! keys of a JSON configuration, options of the command line; later ones beat earlier ones.
//! Deliberately without any notion of what a name means.

use std::path::Path;

use serde_json::Value;

use super::super::exit::Failure;

/// How a name was said, which decides what it may mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    /// A variable of the environment.
    Variable,
    /// A key of a JSON configuration.
    Key,
    /// An option of this command, named as Mooncake's programs name it.
    Option,
}

/// One name with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) manner: Manner,
    pub(super) name: String,
    pub(super) value: String,
    /// For comments: `MC_MTU (prefill.env:3)`.
    pub(super) from: String,
}

/// Beginnings of the names of variables that are Mooncake's, or of those who start it.
const PREFIXES: &[&str] = &[
    "MC_",
    "MOONCAKE_",
    "VLLM_MOONCAKE_",
    "SGLANG_MOONCAKE_",
    "SGLANG_HICACHE_MOONCAKE_",
    "NCCL_IB_GID_INDEX",
    "WITH_NVIDIA_PEERMEM",
];

fn is_theirs(name: &str) -> bool {
    PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Those of this process, in the order of their names.
pub(super) fn of_process() -> Vec<Said> {
    let utf8 = std::env::vars_os().filter_map(|(n, v)| Some((n.into_string().ok()?, v.into_string().ok()?)));
    let mut all: Vec<Said> = utf8
        .filter(|(name, _)| is_theirs(name))
        .map(|(name, value)| Said { manner: Manner::Variable, from: name.clone(), name, value })
        .collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

/// Those of a file of `NAME=VALUE` lines, as shells, Docker and systemd read them: `export` and quotes may be there,
/// `#` begins a comment. Variables that are not Mooncake's are passed over.
///
/// # Errors
/// 65 for a line that is no assignment.
pub(super) fn of_lines(text: &str, shown: &str) -> Result<Vec<Said>, Failure> {
    let mut all = Vec::new();
    for (at, line) in text.lines().enumerate().map(|(at, line)| (at + 1, line.trim())) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let assignment = line.strip_prefix("export ").unwrap_or(line).trim_start();
        let name = assignment.split_once('=').map(|(name, _)| name);
        let Some(name) = name.filter(|n| !n.is_empty() && n.bytes().all(is_of_name)) else {
            return Err(Failure::data(format!("{shown}:{at}: `{line}` is no NAME=VALUE")));
        };
        if is_theirs(name) {
            let value = unquoted(&assignment[name.len() + 1..]);
            all.push(Said {
                manner: Manner::Variable,
                name: name.into(),
                value,
                from: format!("{name} ({shown}:{at})"),
            });
        }
    }
    Ok(all)
}

fn is_of_name(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_'
}

fn unquoted(value: &str) -> String {
    let value = value.trim();
    for quote in ['"', '\''] {
        if let Some(rest) = value.strip_prefix(quote) {
            return rest.split(quote).next().unwrap_or_default().to_owned();
        }
    }
    // A comment begins after a blank, as in a shell.
    value.split(" #").next().unwrap_or_default().trim_end().to_owned()
}

/// The keys of a JSON object; those of `kv_connector_extra_config` as if they stood beside it.
///
/// # Errors
/// 65 when it is none.
pub(super) fn of_json(text: &str, shown: &str) -> Result<Vec<Said>, Failure> {
    let whole: Value =
        serde_json::from_str(text).map_err(|e| Failure::data(format!("{shown}: it is no JSON: {e}")))?;
    let Value::Object(keys) = whole else {
        return Err(Failure::data(format!("{shown}: it is no JSON object")));
    };
    let mut all = Vec::new();
    for (name, value) in keys {
        match value {
            Value::Object(inner) if name == "kv_connector_extra_config" => {
                all.extend(inner.into_iter().map(|(name, value)| key(name, &value, shown)));
            }
            value => all.push(key(name, &value, shown)),
        }
    }
    Ok(all)
}

fn key(name: String, value: &Value, shown: &str) -> Said {
    let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    Said { manner: Manner::Key, from: format!("{name} ({shown})"), name, value }
}

/// What a file holds, and its name without folders, for comments. `-` is stdin.
///
/// # Errors
/// 71 when it cannot be read, 65 for what is no text.
pub(super) fn read(path: &Path) -> Result<(String, String), Failure> {
    let failed = |e: std::io::Error| match e.kind() {
        std::io::ErrorKind::InvalidData => {
            Failure::data(format!("{}: it is no text (UTF-8)", path.display()))
        }
        _ => Failure::system(format!("{}: {e}", path.display())),
    };
    if path.as_os_str() == "-" {
        return Ok((std::io::read_to_string(std::io::stdin()).map_err(failed)?, "stdin".to_owned()));
    }
    let text = std::fs::read_to_string(path).map_err(failed)?;
    let shown = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    Ok((text, shown))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Assignments are read as shells do; what is not Mooncake's is passed over, what is no assignment is refused with
    /// its line.
    #[test]
    fn lines_of_variables() {
        let text = "# vLLM\nexport MC_MTU=1024\nPATH=/bin\nMC_GID_INDEX = 3\n";
        assert!(of_lines(text, "a.env").unwrap_err().to_string().starts_with("a.env:4:"));
        let text = "# vLLM\nexport MC_MTU=1024\n\nPATH=/bin\nMOONCAKE_DEVICE=\"mlx5_0,mlx5_1\" # both\nMC_LOG_LEVEL='INFO'\nMC_IB_TC=4 # c\nMC_IB_SL=\n";
        let all = of_lines(text, "a.env").unwrap();
        let pairs: Vec<_> = all.iter().map(|s| (s.name.as_str(), s.value.as_str())).collect();
        let wanted = [
            ("MC_MTU", "1024"),
            ("MOONCAKE_DEVICE", "mlx5_0,mlx5_1"),
            ("MC_LOG_LEVEL", "INFO"),
            ("MC_IB_TC", "4"),
            ("MC_IB_SL", ""),
        ];
        assert_eq!(pairs, wanted);
        assert_eq!(all[0].from, "MC_MTU (a.env:2)");
    }

    /// Keys of the connector's own table count as if they stood beside it; numbers are read as they are written.
    #[test]
    fn keys_of_json() {
        let text = r#"{"kv_role":"kv_both","kv_connector_extra_config":{"num_workers":10,"mooncake_protocol":"tcp"}}"#;
        let all = of_json(text, "kv.json").unwrap();
        let mut pairs: Vec<_> = all.iter().map(|s| (s.name.as_str(), s.value.as_str())).collect();
        pairs.sort_unstable();
        assert_eq!(pairs, [("kv_role", "kv_both"), ("mooncake_protocol", "tcp"), ("num_workers", "10")]);
        assert_eq!(of_json("[]", "x").unwrap_err().code(), 65);
        assert_eq!(of_json("{", "x").unwrap_err().code(), 65);
    }
}
