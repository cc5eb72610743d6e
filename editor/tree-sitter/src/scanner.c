// Words, and what a head may go on with on its own line.
//
// A word of the grammar (`in`, `over`, `where` ...) is never a name; `on` is one only in a head
// that takes no more labels.
// The labels, the colon, the `@`, `extends` and `on` of a head are taken only where no line ends before them: the parser
// of the compiler reports RLC0008 there, because a forgotten `=` would otherwise be swallowed.

#include <string.h>
#include <wctype.h>

#include "tree_sitter/parser.h"

enum Token {
  NAME, LABEL, TEXT_LABEL, COLON, AT, ON,
  ALIGN, AND, ELSE, EXTENDS, FALSE_, IF, IN, NOT, OR, OVER, THEN, TRUE_, WHERE,
  MENDED,
};

static const char *const WORDS[] = {"align", "and",  "else", "extends", "false", "if",   "in",
                                    "not",   "or",   "over", "then",    "true",  "where"};

#define LONGEST 8

void *tree_sitter_rlspec_external_scanner_create(void) { return NULL; }
void tree_sitter_rlspec_external_scanner_destroy(void *payload) { (void)payload; }

unsigned tree_sitter_rlspec_external_scanner_serialize(void *payload, char *buffer) {
  (void)payload;
  (void)buffer;
  return 0;
}

void tree_sitter_rlspec_external_scanner_deserialize(void *payload, const char *buffer, unsigned length) {
  (void)payload;
  (void)buffer;
  (void)length;
}

static bool starts_word(int32_t c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_'; }

static bool goes_on(int32_t c) { return starts_word(c) || (c >= '0' && c <= '9'); }

static bool taken(TSLexer *lexer, int token) {
  lexer->mark_end(lexer);
  lexer->result_symbol = (TSSymbol)token;
  return true;
}

bool tree_sitter_rlspec_external_scanner_scan(void *payload, TSLexer *lexer, const bool *valid) {
  (void)payload;
  bool mending = valid[MENDED];
  bool broken = false;  // a line ended before this token
  for (;;) {
    int32_t c = lexer->lookahead;
    if (c == '\n') broken = true;
    if (c != ' ' && c != '\t' && c != '\r' && c != '\n' && c != '\f') break;
    lexer->advance(lexer, true);
  }
  int32_t c = lexer->lookahead;
  if (!mending && !broken && (c == ':' || c == '@') && valid[c == ':' ? COLON : AT]) {
    lexer->advance(lexer, false);
    return taken(lexer, c == ':' ? COLON : AT);
  }
  if (!mending && !broken && c == '"' && valid[TEXT_LABEL]) return taken(lexer, TEXT_LABEL);
  if (!starts_word(c)) return false;

  char word[LONGEST + 1];
  unsigned length = 0;
  for (; goes_on(lexer->lookahead); lexer->advance(lexer, false)) {
    if (length < LONGEST) word[length] = (char)lexer->lookahead;
    length++;
  }
  lexer->mark_end(lexer);
  word[length < LONGEST ? length : LONGEST] = '\0';
  for (unsigned i = 0; length <= LONGEST && i < sizeof WORDS / sizeof *WORDS; i++) {
    if (strcmp(word, WORDS[i]) != 0) continue;
    int token = (int)(ALIGN + i);
    return valid[token] && !(token == EXTENDS && broken) && taken(lexer, token);
  }
  if (mending) return taken(lexer, NAME);
  bool on = length == 2 && word[0] == 'o' && word[1] == 'n';
  if (on && !broken && valid[ON] && !valid[LABEL]) {  // where a label may stand it is one
    lexer->result_symbol = ON;
    return true;
  }
  if (!broken && valid[LABEL]) {
    lexer->result_symbol = LABEL;
    return true;
  }
  lexer->result_symbol = NAME;
  return valid[NAME];
}
