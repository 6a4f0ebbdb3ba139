-- Tables live in their own schema and are ours to change; the views over them are what users query.
CREATE SCHEMA store;

CREATE TABLE store.trajectories (
    trajectory_id VARCHAR PRIMARY KEY,
    domain        VARCHAR NOT NULL,
    source        VARCHAR NOT NULL,
    policy        VARCHAR,
    task_id       VARCHAR,
    trial         INTEGER,
    reward        DOUBLE,
    ending        VARCHAR NOT NULL,
    message_count INTEGER NOT NULL,
    messages      VARCHAR NOT NULL,
    outcome       VARCHAR NOT NULL,
    defects       VARCHAR[] NOT NULL,
    file          VARCHAR NOT NULL,
    position      INTEGER NOT NULL,
    raw           VARCHAR NOT NULL
);

CREATE TABLE store.rejected (
    record_id VARCHAR PRIMARY KEY,
    domain    VARCHAR NOT NULL,
    source    VARCHAR NOT NULL,
    file      VARCHAR NOT NULL,
    position  INTEGER NOT NULL,
    reason    VARCHAR NOT NULL,
    raw       VARCHAR NOT NULL
);

CREATE TABLE store.actions (
    trajectory_id VARCHAR NOT NULL,
    step          INTEGER NOT NULL,
    call          INTEGER NOT NULL,
    kind          VARCHAR NOT NULL,
    tool          VARCHAR,
    arguments     VARCHAR,
    raw_arguments VARCHAR,
    defect        VARCHAR,
    result_step   INTEGER,
    ending        BOOLEAN NOT NULL
);

-- What a domain says of its tools, as of the last time it was loaded beside this store.
CREATE TABLE store.tools (
    domain VARCHAR NOT NULL,
    tool   VARCHAR NOT NULL,
    effect VARCHAR NOT NULL,
    actor  VARCHAR NOT NULL,
    PRIMARY KEY (domain, tool)
);

-- Raw answers by the content that asked for them: prompt, schema, model and sampling.
CREATE TABLE store.generations (
    key               VARCHAR NOT NULL,
    attempt           INTEGER NOT NULL,
    model             VARCHAR NOT NULL,
    revision          VARCHAR NOT NULL,
    text              VARCHAR NOT NULL,
    finish_reason     VARCHAR NOT NULL,
    problem           VARCHAR,
    prompt_tokens     INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL,
    cached_tokens     INTEGER NOT NULL,
    seconds           DOUBLE NOT NULL,
    PRIMARY KEY (key, attempt)
);

CREATE TABLE store.critiques (
    critique_id    VARCHAR PRIMARY KEY,
    generation_key VARCHAR NOT NULL,
    attempts       INTEGER NOT NULL,
    trajectory_id  VARCHAR NOT NULL,
    step           INTEGER NOT NULL,
    call           INTEGER NOT NULL,
    role           VARCHAR NOT NULL,
    model          VARCHAR NOT NULL,
    domain_hash    VARCHAR NOT NULL,
    superseded     BOOLEAN NOT NULL DEFAULT FALSE,
    status         VARCHAR NOT NULL,
    detail         VARCHAR,
    verdict        VARCHAR,
    error          VARCHAR,
    clauses        VARCHAR[],
    explanation    VARCHAR,
    evidence       VARCHAR[],
    checks         STRUCT(grounding VARCHAR, policy VARCHAR, tool VARCHAR, progress VARCHAR),
    fix            STRUCT(kind VARCHAR, target VARCHAR, tool VARCHAR, value VARCHAR, hint VARCHAR),
    confidence     DOUBLE,
    fields         VARCHAR,
    left_out       VARCHAR[] NOT NULL,
    created        TIMESTAMP NOT NULL
);

CREATE TABLE store.critique_audit (
    critique_id        VARCHAR PRIMARY KEY,
    schema_valid       BOOLEAN NOT NULL,
    references_visible BOOLEAN NOT NULL,
    literals_grounded  BOOLEAN NOT NULL,
    consistent         BOOLEAN NOT NULL,
    findings           VARCHAR[] NOT NULL
);
