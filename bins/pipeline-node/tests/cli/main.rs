//! The built program, as a user runs it: what it prints, what it leaves, how it ends.

mod bench;
mod copy;
mod node;
mod run;
mod validate;
