-- The public interface. A view's leading columns are documented and stable; new ones are added at the end.

CREATE OR REPLACE VIEW trajectories AS
SELECT trajectory_id, domain, task_id, trial, reward, ending, source, policy,
       message_count, defects, outcome::JSON AS outcome, file, position
FROM store.trajectories;

CREATE OR REPLACE VIEW rejected AS
SELECT record_id, domain, source, file, position, reason, raw FROM store.rejected;

CREATE OR REPLACE VIEW messages AS
SELECT trajectory_id, step, message.role AS role, coalesce(message.content, '') AS content,
       message.calls AS calls, message.answers[1] AS answers_step, message.answers[2] AS answers_call
FROM (
    SELECT trajectory_id, generate_subscripts(list, 1) - 1 AS step, unnest(list) AS message
    FROM (
        SELECT trajectory_id,
               from_json(messages, '[{"role":"VARCHAR","content":"VARCHAR","calls":"JSON","answers":["INTEGER"]}]')
                   AS list
        FROM store.trajectories
    )
);

CREATE OR REPLACE VIEW actions AS
SELECT a.trajectory_id, a.step, a.call, a.kind, a.tool, tools.effect,
       a.ending, a.arguments::JSON AS arguments, a.defect, a.result_step, a.raw_arguments,
       t.domain, t.task_id, t.trial, t.reward
FROM store.actions a
JOIN store.trajectories t USING (trajectory_id)
LEFT JOIN store.tools tools ON tools.domain = t.domain AND tools.tool = a.tool;

CREATE OR REPLACE VIEW critique_history AS
SELECT c.critique_id, c.trajectory_id, c.step, c.call, c.role, c.model, c.status, c.verdict, c.error,
       c.clauses, c.explanation, c.evidence, c.checks, c.fix, c.confidence, c.fields::JSON AS fields,
       a.domain, a.task_id, a.trial, a.reward, a.kind, a.tool, a.effect, a.ending,
       c.detail, c.left_out, c.attempts, g.prompt_tokens, g.completion_tokens, g.seconds, g.text AS raw,
       c.superseded, c.domain_hash, c.generation_key, c.created
FROM store.critiques c
LEFT JOIN actions a USING (trajectory_id, step, call)
LEFT JOIN store.generations g ON g.key = c.generation_key AND g.attempt = c.attempts;

CREATE OR REPLACE VIEW critiques AS
SELECT * EXCLUDE (superseded) FROM critique_history WHERE NOT superseded;

CREATE OR REPLACE VIEW critique_audit AS
SELECT critique_id, schema_valid, references_visible, literals_grounded, consistent,
       schema_valid AND references_visible AND literals_grounded AND consistent AS passed, findings
FROM store.critique_audit;
