//! Commands, and how they end.

use libtest_mimic::Failed;
use redroom_harness::backend::{Ended, Exec};

use crate::Body;
use crate::fixture::{Fixture, ran, same, shell};

pub(crate) const TRIALS: &[(&str, Body)] = &[("exit_codes_are_those_of_the_command", exit_codes)];

fn exit_codes(fixture: &Fixture) -> Result<(), Failed> {
    fixture.in_slot(|place| async move {
        let sandbox = place.sandbox(Vec::new()).await?;
        for (script, code) in
            [("true", 0), ("exit 7", 7), ("exit 255", 255), ("kill -9 $$", 137), ("kill -TERM $$", 143)]
        {
            let (end, _) = ran(&*sandbox, shell(script)).await?;
            same((end.exit_code, end.ended), (Some(code), Ended::Itself), script)?;
        }
        for (program, code) in [("/nowhere/program", 127), ("/etc/passwd", 126)] {
            let exec = Exec { argv: vec![program.to_owned()], ..shell("") };
            let (end, heard) = ran(&*sandbox, exec).await?;
            same((end.exit_code, end.ended), (Some(code), Ended::Itself), program)?;
            same(
                (heard.out.is_empty(), heard.engine.is_empty()),
                (true, false),
                format!("whose words {program} gets"),
            )?;
        }
        sandbox.remove().await?;
        Ok(())
    })
}
