//! What a copy to several nodes came to: one line for each, or one JSON object.

use super::shape::Shape;
use crate::cli::copy::progress::Counts;
use crate::cli::exit::{Failure, Outcome};
use crate::cli::file;
use crate::cli::quantity::human;

/// How the copy to one destination ended.
#[derive(Debug)]
pub struct End {
    /// `PEER:SEGMENT`.
    pub label: String,
    /// Why it does not have everything: nothing could be copied at all, or no more; or what failed first.
    pub error: Option<String>,
    /// Files, bytes and failures.
    pub counts: Counts,
    /// Bytes sent by the source, and pulled from others.
    pub moved: (u64, u64),
    /// From the start of all to its end.
    pub seconds: f64,
}

/// See the file's head.
#[derive(Debug)]
pub struct Report {
    /// As asked.
    pub shape: Shape,
    /// Files of the tree.
    pub files: u64,
    /// Bytes of the tree.
    pub bytes: u64,
    /// Until the last destination's end.
    pub seconds: f64,
    /// In the order of the command line.
    pub ends: Vec<End>,
}

impl Report {
    fn is_whole(end: &End) -> bool {
        end.error.is_none() && end.counts.failed == 0 && end.counts.untried() == 0
    }

    fn json(&self) -> serde_json::Value {
        let destinations: Vec<_> = self
            .ends
            .iter()
            .map(|end| {
                let counts = &end.counts;
                serde_json::json!({
                    "to": end.label, "files": counts.files, "bytes": counts.file_bytes, "failed": counts.failed,
                    "skipped": counts.skipped, "skipped_bytes": counts.skipped_bytes,
                    "resumed_bytes": counts.resumed_bytes, "untried": counts.untried(), "sent_bytes": end.moved.0, "pulled_bytes": end.moved.1,
                    "seconds": end.seconds, "error": end.error,
                })
            })
            .collect();
        serde_json::json!({
            "fanout": self.shape.name(), "files": self.files, "bytes": self.bytes, "seconds": self.seconds,
            "sent_bytes": self.ends.iter().map(|end| end.moved.0).sum::<u64>(), "destinations": destinations,
        })
    }

    fn line(end: &End) -> String {
        let Counts { files, skipped, failed, .. } = end.counts;
        let mut line =
            format!("{}: {files} files, {} in {:.2} s", end.label, human(end.counts.file_bytes), end.seconds);
        if skipped > 0 {
            line += &format!("; {skipped} were the same");
        }
        if end.moved.1 > 0 {
            line += &format!(" ({} pulled from other nodes)", human(end.moved.1));
        }
        match (failed, end.counts.untried()) {
            (0, 0) => {}
            (_, 0) => line += &format!(", {failed} failed"),
            (_, untried) => line += &format!(", {failed} failed, {untried} were not tried"),
        }
        if let Some(error) = &end.error {
            line += &format!(": {error}");
        }
        line
    }

    /// Says it; what went wrong is said in any case.
    ///
    /// # Errors
    /// 1 when at least one destination does not have everything.
    pub fn tell(&self, json: bool) -> Outcome {
        if json {
            file::print(&format!("{}\n", self.json()))?;
        } else if std::io::IsTerminal::is_terminal(&std::io::stderr()) {
            self.ends
                .iter()
                .filter(|end| Self::is_whole(end))
                .for_each(|end| eprintln!("{}", Self::line(end)));
        }
        let broken: Vec<&End> = self.ends.iter().filter(|end| !Self::is_whole(end)).collect();
        if broken.is_empty() {
            return Ok(());
        }
        let last = format!("{} of {} destinations do not have everything", broken.len(), self.ends.len());
        let said = broken.iter().rev().map(|end| Failure::failed(Self::line(end)));
        Err(said.fold(Failure::failed(last), |below, above| above.worse(below)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(label: &str, (files, sent_bytes, failed): (u64, u64, u64), error: Option<&str>) -> End {
        let file_bytes = sent_bytes;
        let counts = Counts { wanted: 3, files, file_bytes, sent_bytes, failed, ..Counts::default() };
        End { label: label.into(), error: error.map(str::to_owned), counts, moved: (5, 7), seconds: 1.0 }
    }

    /// Each destination has its own end; one that does not have every file makes the whole fail, and is named.
    #[test]
    fn each_has_its_own_end() {
        let ends = vec![
            end("a:f", (3, 12, 0), None),
            end("b:f", (1, 4, 1), None),
            end("c:f", (0, 0, 0), Some("gone")),
        ];
        let mut report = Report { shape: Shape::Chain, files: 3, bytes: 12, seconds: 1.5, ends };
        let json = report.json();
        assert_eq!((&json["sent_bytes"], &json["fanout"]), (&15.into(), &"chain".into()));
        assert_eq!(json["destinations"][1]["untried"], 1);
        assert_eq!(json["destinations"][2]["error"], "gone");
        let said = report.tell(true).unwrap_err().to_string();
        assert!(!said.contains("a:f") && said.contains("b:f: 1 files") && said.contains("c:f"), "{said}");
        assert!(
            said.contains("1 were not tried") && said.ends_with("2 of 3 destinations do not have everything")
        );
        report.ends.truncate(1);
        report.tell(true).unwrap();
    }
}
