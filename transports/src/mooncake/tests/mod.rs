//! Tests of what several files of this folder do together. Deliberately no product code.

mod serving;
