/* The declarations of the C core. Read by cffi and included by tb.h, so that the two can't drift apart: plain C, no
 * preprocessor lines. What each call promises stands in the header of its module; the conventions are in tb.h. */

/* ---- errors (error.h) ---- */

enum tb_code {
    TB_OK = 0,
    TB_E_NOMEM = -1,       /* out of memory */
    TB_E_ARG = -2,         /* the caller broke the contract of the call */
    TB_E_FORMAT = -3,      /* bytes that are not what they claim to be; detail says where */
    TB_E_UNSUPPORTED = -4, /* a valid form that this core does not read; detail names it */
    TB_E_LIMIT = -5,       /* a limit was exceeded; detail names it */
    TB_E_SHARED = -6,      /* the shared file of a split index is missing (detail: its id in hex) or the wrong one */
    TB_E_IO = -7,          /* a system call failed: os_error and path */
    TB_E_CANCELLED = -8,   /* the caller's cancel flag was set */
    TB_E_TIMEOUT = -9      /* the caller's deadline passed */
};

typedef struct tb_error {
    int32_t code;      /* enum tb_code */
    int32_t os_error;  /* errno of TB_E_IO, else 0 */
    uint32_t path_len; /* bytes of path that are set; the path is cut at its capacity */
    char path[512];
    char detail[200];  /* a sentence in ASCII, NUL-terminated; bytes from outside are shown as '?' */
} tb_error;

/* ---- the git index (index.h) ---- */

enum tb_entry_flags {
    TB_ENTRY_ASSUME_UNCHANGED = 1,
    TB_ENTRY_SKIP_WORKTREE = 2,
    TB_ENTRY_INTENT_TO_ADD = 4
};

enum tb_index_flags {
    TB_INDEX_SPLIT = 1,   /* merged with a shared file */
    TB_INDEX_SPARSE = 2,  /* may hold folders as entries (mode 040000, the name ends in '/') */
    TB_INDEX_TREE = 4,    /* has a cache tree that could be read */
    TB_INDEX_BAD_TREE = 8 /* had one that could not: ignored, as git does */
};

typedef struct tb_index_entry {
    uint32_t name_off; /* into tb_index.names */
    uint32_t name_len;
    uint32_t ctime_s;
    uint32_t ctime_ns;
    uint32_t mtime_s;
    uint32_t mtime_ns;
    uint32_t dev;
    uint32_t ino;
    uint32_t mode; /* git's: 0100644, 0100755, 0120000, 0160000, 040000 */
    uint32_t uid;
    uint32_t gid;
    uint32_t size; /* cut to 32 bits, as in the file */
    uint16_t flags; /* enum tb_entry_flags */
    uint16_t stage; /* 0, or 1 to 3 for a conflict */
    uint8_t oid[32]; /* tb_index.oid_len bytes are set, the rest are zero */
} tb_index_entry;

typedef struct tb_tree_node {
    uint32_t name_off; /* into tb_index.tree_names: the last component; empty for the root */
    uint32_t name_len;
    uint32_t parent;      /* position of the parent node; the root is its own */
    uint32_t child_first; /* into tb_index.tree_children */
    uint32_t child_count;
    int32_t entry_count; /* index entries beneath it; -1: the node is invalid and has no oid */
    uint8_t oid[32];
} tb_tree_node;

typedef struct tb_index {
    uint32_t version; /* 2, 3 or 4 */
    uint32_t oid_len; /* 20 or 32 */
    uint32_t flags;   /* enum tb_index_flags */
    uint32_t count;
    uint32_t tree_count;
    uint32_t tree_sorted; /* siblings are in git's order (length, then bytes) */
    uint32_t conflicts;   /* entries with a stage */
    const tb_index_entry *entries;
    const char *names; /* each name ends in NUL */
    const tb_tree_node *tree; /* parents before children; tree[0] is the root */
    const uint32_t *tree_children;
    const char *tree_names;
    uint64_t hashed_len;    /* the checksum is over the first hashed_len bytes of the file */
    uint8_t checksum[32];   /* as found; all zero when index.skipHash is set */
    uint8_t shared_oid[32]; /* of a split index: the checksum and the name of its shared file */
    struct tb_arena *arena;
} tb_index;

int tb_index_parse(tb_index **out, const uint8_t *data, size_t len, const uint8_t *shared, size_t shared_len,
                   uint32_t oid_len, tb_error *err);
void tb_index_free(tb_index *index);
int64_t tb_index_find(const tb_index *index, const uint8_t *name, size_t name_len, uint32_t stage);
void tb_index_prefix(uint32_t *start, uint32_t *end, const tb_index *index, const uint8_t *folder, size_t folder_len);
int64_t tb_index_next_skipped(const tb_index *index, uint32_t from, const uint8_t *name, size_t name_len);
int64_t tb_index_tree_find(const tb_index *index, const uint8_t *folder, size_t folder_len);

/* ---- what the index remembers of a file against what is there (stat_data.h) ---- */

enum tb_stat_options_flags {
    TB_STAT_TRUST_CTIME = 1, /* core.trustctime */
    TB_STAT_FULL = 2,        /* core.checkStat is not "minimal": ctime, uid, gid and inode count */
    TB_STAT_CHECK_DEV = 4,   /* compare the device too (git: only when built with USE_STDEV) */
    TB_STAT_FILEMODE = 8,    /* core.fileMode */
    TB_STAT_SYMLINKS = 16,   /* core.symlinks */
    TB_STAT_NSEC = 32,       /* compare nanoseconds too, where both sides have them */
    TB_STAT_IGNORE_CASE = 64 /* core.ignoreCase: for the ignore rules of a walk */
};

enum tb_stat_status {
    TB_STAT_UNCHANGED = 0,     /* the index vouches for it */
    TB_STAT_RACY = 1,          /* same stat data, but too young to trust: read it */
    TB_STAT_CHANGED = 2,       /* other stat data, a conflict or intent-to-add: read it */
    TB_STAT_TYPE_CHANGED = 3,  /* another kind of file is there (its mode says which) */
    TB_STAT_DELETED = 4,       /* nothing there, or a parent is missing, a file or a link */
    TB_STAT_IS_FOLDER = 5,     /* a folder stands where the index has a file */
    TB_STAT_GITLINK = 6,       /* a nested repository's folder is there: the caller compares its HEAD */
    TB_STAT_SKIP_WORKTREE = 7, /* not looked at: the index keeps its content */
    TB_STAT_UNREADABLE = 8,    /* it could not be looked at: os_error says why */
    TB_STAT_NARROW = 9         /* unchanged, and its permissions are narrower than usual_permissions would give */
};

typedef struct tb_stat_options {
    uint32_t flags;         /* enum tb_stat_options_flags */
    uint32_t threads;       /* 0: as many as pay off (1 below some hundred entries, else 2); at most 16 */
    uint32_t usual_permissions; /* of a new plain file (0666 less the umask); 0: NARROW is not asked for */
    uint32_t unused;
    int64_t index_mtime_ns; /* of the index file: what is not older is racy */
    int64_t deadline_ns;    /* on CLOCK_MONOTONIC; 0: none */
    const int32_t *cancel;  /* not NULL: looked at between folders; anything but 0 stops the call */
} tb_stat_options;

typedef struct tb_stat_value {
    uint64_t size;
    uint64_t ino;
    uint64_t dev;
    int64_t mtime_ns;
    int64_t ctime_ns;
    uint32_t mode; /* st_mode; 0: nothing was seen there */
    uint32_t uid;
    uint32_t gid;
    int32_t os_error; /* of TB_STAT_UNREADABLE, else 0 */
} tb_stat_value;

/* ---- one look at a working tree (walk.h) ---- */

enum tb_walk_kind {
    TB_WALK_UNTRACKED = 32,
    TB_WALK_NESTED = 33,
    TB_WALK_SPECIAL = 34,
    TB_WALK_UNLISTED = 35,
    TB_WALK_SKIP_FOLDER = 36,
    TB_WALK_ATTRIBUTES = 37
};

enum tb_walk_flags {
    TB_WALK_OLD_STARSTAR = 1 /* ignore.h: agree with a git before 2.51.2 */
};

typedef struct tb_walk_text {
    const char *bytes; /* NULL: there is no such file */
    size_t len;
} tb_walk_text;

typedef struct tb_walk_rules {
    tb_walk_text folder; /* no '/' at the end; the root's is empty */
    tb_walk_text text;
} tb_walk_rules;

typedef struct tb_walk_options {
    tb_stat_options stat;
    uint32_t flags;             /* enum tb_walk_flags */
    uint32_t unused;
    tb_walk_text excludes_file; /* core.excludesFile: the weakest rules */
    tb_walk_text info_exclude;  /* info/exclude */
    tb_walk_text hidden;        /* names that begin with this are not there */
    tb_walk_text start;         /* walk this folder only, as a plain one; empty: the whole tree */
    const tb_walk_rules *rules; /* of .gitignore files that aren't checked out (skip-worktree), sorted by folder */
    uint64_t rules_count;
} tb_walk_options;

typedef struct tb_walk_item {
    uint64_t path_off; /* into names, when path_len is not 0 */
    uint32_t path_len;
    uint32_t kind;     /* enum tb_stat_status or tb_walk_kind */
    int64_t position;  /* in the index; -1: untracked */
    tb_stat_value value;
} tb_walk_item;

typedef struct tb_walk_result {
    uint64_t count;
    const tb_walk_item *items;
    const char *names;
    uint64_t stat_calls;
    uint64_t open_calls;     /* folders and ignore files */
    uint64_t folders_listed;
    uint64_t ignore_lookups;
    uint64_t ignore_reads;   /* .gitignore files read; the others were known */
    uint32_t threads;
    uint32_t unused;
    struct tb_arena *arena;
} tb_walk_result;

typedef struct tb_walker tb_walker;

tb_walker *tb_walker_new(void);
void tb_walker_free(tb_walker *walker);
int tb_walk(tb_walk_result **out, tb_walker *walker, const tb_index *index, int root_fd, const tb_walk_options *options,
            tb_error *err);
void tb_walk_free(tb_walk_result *result);

/* ---- renames that destroy nothing (safe_rename.h) ---- */

int tb_rename_exchange(int from_dir, const char *from, int to_dir, const char *to);
int tb_rename_new(int from_dir, const char *from, int to_dir, const char *to);

/* ---- everything written to a filesystem made durable (sync.h) ---- */

int tb_sync_filesystem(int fd);
