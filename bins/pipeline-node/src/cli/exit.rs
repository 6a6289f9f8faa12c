//! How a command ends: one table of exit codes, the one in `docs/exit-codes.md`.

use std::fmt;
use std::process::ExitCode;

use pipeline_configs::plain;

/// Why a command did not do all that was asked: one line, or one for each part of it. What others wrote begins no line of its own.
#[derive(Debug, PartialEq, Eq)]
pub struct Failure {
    code: u8,
    /// Lines, with `\n` between them.
    message: String,
}

/// What a command answers.
pub type Outcome = Result<(), Failure>;

impl Failure {
    /// 1: some of what was asked failed.
    pub fn failed(message: impl fmt::Display) -> Self {
        Self::new(1, message)
    }

    /// 2: the command line makes no sense.
    pub fn usage(message: impl fmt::Display) -> Self {
        Self::new(2, message)
    }

    /// 3: a threshold was missed.
    pub fn threshold(message: impl fmt::Display) -> Self {
        Self::new(3, message)
    }

    /// 65: a file of data makes no sense.
    pub fn data(message: impl fmt::Display) -> Self {
        Self::new(65, message)
    }

    /// 69: a peer could not be reached, or refused.
    pub fn peer(message: impl fmt::Display) -> Self {
        Self::new(69, message)
    }

    /// 71: the system refused.
    pub fn system(message: impl fmt::Display) -> Self {
        Self::new(71, message)
    }

    /// 75: stopped before everything in flight had ended.
    pub fn undrained(message: impl fmt::Display) -> Self {
        Self::new(75, message)
    }

    /// 78: the file has findings.
    pub fn findings(message: impl fmt::Display) -> Self {
        Self::new(78, message)
    }

    /// The same, when they have been printed: there is nothing to add.
    pub fn told() -> Self {
        Self::findings("")
    }

    fn new(code: u8, message: impl fmt::Display) -> Self {
        Self { code, message: plain::line(&message.to_string()).into_owned() }
    }

    /// The same, with what it is about in front.
    pub fn of(self, subject: &dyn fmt::Display) -> Self {
        if self.message.is_empty() {
            return self;
        }
        Self { message: format!("{}: {}", plain::line(&subject.to_string()), self.message), ..self }
    }

    /// Of two failures of one command, what it ends with: a threshold matters less than an error. Both are said.
    pub fn worse(self, other: Self) -> Self {
        let code = if self.code == 1 || other.code == 1 { 1 } else { self.code.max(other.code) };
        let between = if self.message.is_empty() || other.message.is_empty() { "" } else { "\n" };
        Self { code, message: format!("{}{between}{}", self.message, other.message) }
    }

    /// Says why on stderr and gives the code to the system.
    pub fn report(&self) -> ExitCode {
        if !self.message.is_empty() {
            self.message.lines().for_each(|line| eprintln!("pipeline-node: {line}"));
        }
        ExitCode::from(self.code)
    }

    /// The number, for tests and for commands that start others.
    #[cfg(test)]
    pub fn code(&self) -> u8 {
        self.code
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What others wrote stays within the line it is said in; several failures are a line each.
    #[test]
    fn a_failure_is_a_line() {
        let two = Failure::failed("no `a\nb\u{1b}c`").worse(Failure::failed("no d")).of(&"e\nf");
        assert_eq!(two.to_string(), "e\\nf: no `a\\nb\\u001bc`\nno d");
    }

    /// Every code that the program can end with is a row of the documented table.
    #[test]
    fn codes_are_documented() {
        let docs = include_str!("../../../../docs/exit-codes.md");
        let all = [
            Failure::failed(""),
            Failure::usage(""),
            Failure::threshold(""),
            Failure::data(""),
            Failure::peer(""),
            Failure::system(""),
            Failure::undrained(""),
            Failure::findings(""),
        ];
        for failure in all {
            assert!(
                docs.contains(&format!("| {} |", failure.code())),
                "{} is not documented",
                failure.code()
            );
        }
    }
}
