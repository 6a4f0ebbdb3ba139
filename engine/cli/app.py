"""The commands, and what an error looks like. Every command imports what it needs only when it runs."""

from __future__ import annotations

import sys

import typer

from ...specs import SpecErrors, UserError
from . import critiques, doctor, domains, init, query, run, trajectories, worlds
from .output import INTERRUPTED, Interrupted, is_interrupt, print_problems, print_user_error, say

app = typer.Typer(
    name="castline",
    help="Turn tool-calling trajectories into structured critiques of every action, and query them in SQL.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
app.command("run")(run.run)
app.command("init")(init.init)
app.command("validate")(domains.validate)
app.command("schema")(domains.schema)
app.command("import")(trajectories.import_)
app.command("simulate")(worlds.simulate)
app.command("coverage")(worlds.coverage_)
app.command("replay")(worlds.replay_)
app.command("plan")(critiques.plan_)
app.command("critique")(critiques.critique_)
app.command("sql")(query.sql)
app.command("doctor")(doctor.doctor)


def main() -> None:
    """Exit status: 0 done, 1 done but some rows failed, 2 the user's mistake, 130 interrupted."""
    try:
        app()
    except SpecErrors as error:
        print_problems(error.problems)
        sys.exit(2)
    except UserError as error:
        print_user_error(error)
        sys.exit(2)
    except Interrupted as interrupted:
        say(str(interrupted))
        sys.exit(INTERRUPTED)
    except SystemExit as ended:
        if ended.code == INTERRUPTED:
            say("Stopped.")
        raise
    except RuntimeError as error:
        if not is_interrupt(error):
            raise
        say("Stopped.")
        sys.exit(INTERRUPTED)
