// Colours for cells of LLVM IR, C and Kaleidoscope in JupyterLab, which has no modes for them or
// none that knows magics. Written by hand as the module federation container that JupyterLab loads
// (its "prebuilt extension"), so that no Node is needed. The first line of a cell decides: below
// %%c, %%kaleidoscope, %%llvm and %%python each has its own colours, whatever the notebook's
// language is.
(function () {
  "use strict";

  // Of JupyterLab's colours those that can be read in its light theme and in its dark one: those of
  // "meta", "atom" and definitions cannot.
  const META = "string.special";
  const NAME = "variableName.special";

  // Lines of output wrap between words in cells of these languages; JupyterLab breaks words.
  const LANGUAGES = ["llvm", "jitkernel-c", "kaleidoscope"];
  const WRAP = LANGUAGES.map(
    name => `.jp-CodeCell:has(.cm-content[data-language="${name}"]) .jp-RenderedText pre`
  ).join(",") + "{word-break:normal;overflow-wrap:anywhere}";

  // -- LLVM IR ----------------------------------------------------------------------------------

  const KEYWORDS = new Set(
    ("define declare global constant private internal external weak linkonce linkonce_odr weak_odr common appending " +
      "extern_weak available_externally alias ifunc target triple datalayout source_filename type attributes module asm " +
      "dso_local local_unnamed_addr unnamed_addr thread_local addrspace align section comdat nounwind noinline optnone " +
      "ret br switch indirectbr invoke callbr resume unreachable fneg add fadd sub fsub mul fmul udiv sdiv fdiv urem srem " +
      "frem shl lshr ashr and or xor extractelement insertelement shufflevector extractvalue insertvalue alloca load " +
      "store fence cmpxchg atomicrmw getelementptr trunc zext sext fptrunc fpext fptoui fptosi uitofp sitofp ptrtoint " +
      "inttoptr bitcast addrspacecast icmp fcmp phi select freeze call va_arg landingpad catchpad cleanuppad tail " +
      "musttail notail to nuw nsw exact inbounds volatile atomic eq ne ugt uge ult ule sgt sge slt sle oeq ogt oge olt " +
      "ole one ord ueq une uno fast nnan ninf nsz arcp contract reassoc signext zeroext inreg byval sret noalias " +
      "nocapture nonnull readonly readnone writeonly catch cleanup filter personality x").split(" ")
  );
  const ATOMS = /^(true|false|null|undef|poison|none|zeroinitializer)$/;
  const TYPES = /^(i\d+|half|bfloat|float|double|fp128|x86_fp80|ppc_fp128|x86_amx|ptr|void|label|metadata|token|opaque|vscale)$/;

  const MAGIC = /^\s*%[A-Za-z_]\w*(?![\w.$-]*\s*=)/;

  function llvm(stream) {
    if (stream.match(/^;.*/)) return "comment";
    if (stream.sol() || !stream.string.slice(0, stream.start).trim()) {
      if (stream.match(/^%%?[A-Za-z_]\w*(?![\w.$-]*\s*=)/) || stream.match(/^!(?![\w.$]+\s*=).*/)) return META;
      if (stream.match(/^(?:"[^"]*"|[-\w$.]+):/)) return "labelName";
    }
    // The words of a line magic are none of IR: `--target`.
    if (MAGIC.test(stream.string) && stream.match(/^-{0,2}[A-Za-z][\w-]*/)) return null;
    if (stream.match(/^c?"(?:[^"\\]|\\.)*"?/)) return "string";
    if (stream.match(/^@(?:"[^"]*"|[-\w$.]+)/)) return NAME;
    if (stream.match(/^%(?:"[^"]*"|[-\w$.]+)/)) return "variableName";
    if (stream.match(/^[!#$][-\w$.]+/)) return META;
    if (stream.match(/^[us]?0x[0-9A-Fa-f]+|^-?\d[\d_]*(?:\.\d*)?(?:[eE][-+]?\d+)?(?![\w.])/)) return "number";
    const word = stream.match(/^[A-Za-z_][\w.]*/);
    if (word) {
      if (TYPES.test(word[0])) return "variableName.standard"; // JupyterLab has no colour for types
      if (ATOMS.test(word[0])) return "keyword";
      return KEYWORDS.has(word[0]) ? "keyword" : null;
    }
    stream.next();
    return null;
  }

  // -- C ----------------------------------------------------------------------------------------

  const C_WORDS = new Set(
    ("auto break case const continue default do else enum extern for goto if inline register restrict return sizeof " +
      "static struct switch typedef union volatile while alignas alignof constexpr nullptr static_assert thread_local " +
      "typeof typeof_unqual _Alignas _Alignof _Atomic _Generic _Noreturn _Static_assert _Thread_local asm __asm__ " +
      "__attribute__ __typeof__ __extension__ __thread __restrict __inline true false NULL").split(" ")
  );
  const C_TYPES = new Set(
    ("void char short int long float double signed unsigned bool _Bool _Complex _BitInt __int128 size_t ssize_t " +
      "ptrdiff_t wchar_t FILE va_list").split(" ")
  );

  function c(stream, state) {
    if (state.quotes) {
      // Inside a comment that may go over lines.
      if (stream.skipTo(state.quotes)) {
        stream.match(state.quotes);
        state.quotes = "";
      } else stream.skipToEnd();
      return "comment";
    }
    if (stream.sol() && stream.match(/^(?:%[A-Za-z_].*|\?{1,2}\S+\s*$|\S+\?{1,2}\s*$)/)) return META;
    if (stream.match(/^\/\/.*/)) return "comment";
    if (stream.match("/*")) {
      if (!stream.match(/^.*?\*\//)) {
        state.quotes = "*/";
        stream.skipToEnd();
      }
      return "comment";
    }
    const first = !stream.string.slice(0, stream.start).trim();
    const included = state.name;
    state.name = false;
    if (first && stream.match(/^#\s*include\b\s*/)) {
      state.name = true; // the name of a file follows
      return "keyword";
    }
    if (first && stream.match(/^#\s*\w*/)) return "keyword";
    if (included && stream.match(/^<[^>]*>?/)) return "string";
    if (stream.match(/^(?:u8|[uUL])?"(?:[^"\\]|\\.)*"?/) || stream.match(/^[uUL]?'(?:[^'\\]|\\.)*'?/)) return "string";
    if (stream.match(/^\.?\d(?:[eEpP][-+]|[\w.'])*/)) return "number";
    const word = stream.match(/^[A-Za-z_$\u0080-\uffff][\w$\u0080-\uffff]*/);
    if (word) {
      if (C_WORDS.has(word[0])) return "keyword";
      if (C_TYPES.has(word[0]) || /^u?int(?:_\w+)?\d+_t$|^u?int(?:ptr|max)_t$/.test(word[0])) return "variableName.standard";
      return stream.match(/^\s*\(/, false) ? NAME : "variableName";
    }
    return /[-+*/%=<>!&|^~?:]/.test(stream.next()) ? "operator" : null;
  }

  // -- Kaleidoscope -----------------------------------------------------------------------------

  const KALEIDOSCOPE = /^(def|extern|if|then|else|for|in|var|unary|binary)$/;

  function kaleidoscope(stream) {
    if (stream.sol() && stream.match(/^%[A-Za-z_].*/)) return META;
    if (stream.match(/^#.*/)) return "comment";
    if (stream.match(/^(?:\d+(?:\.\d*)?|\.\d+)/)) return "number";
    const word = stream.match(/^[A-Za-z]\w*/);
    if (word) {
      if (KALEIDOSCOPE.test(word[0])) return "keyword";
      return stream.match(/^\s*\(/, false) ? NAME : "variableName";
    }
    return /[-!$%&*+/:<=>?@^|~]/.test(stream.next()) ? "operator" : null;
  }

  // -- Python, as much of it as a cell needs ------------------------------------------------------

  const PYTHON = new Set(
    ("and as assert async await break class continue def del elif else except finally for from global if import in is " +
      "lambda match nonlocal not or pass raise return try while with yield case").split(" ")
  );

  function python(stream, state) {
    if (state.quotes) {
      // Inside a string that may go over lines.
      if (stream.skipTo(state.quotes)) {
        stream.match(state.quotes);
        state.quotes = "";
      } else stream.skipToEnd();
      return "string";
    }
    if (stream.match(/^#.*/)) return "comment";
    const open = stream.match(/^[rbfuRBFU]{0,2}("""|''')/);
    if (open) {
      state.quotes = open[1];
      return "string";
    }
    if (stream.match(/^[rbfuRBFU]{0,2}(?:"(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?)/)) return "string";
    if (stream.match(/^@[\w.]+/)) return META;
    if (stream.match(/^(?:0[xXbBoO][\da-fA-F_]+|\d[\d_]*(?:\.\d*)?(?:[eE][-+]?\d+)?|\.\d+)/)) return "number";
    const word = stream.match(/^[A-Za-z_]\w*/);
    if (word) {
      const after = state.name;
      state.name = word[0] === "def" || word[0] === "class";
      if (/^(True|False|None)$/.test(word[0])) return "keyword";
      if (PYTHON.has(word[0])) return "keyword";
      return after ? NAME : "variableName";
    }
    return /[-+*/%=<>!&|^~:]/.test(stream.next()) ? "operator" : null;
  }

  // -- indenting ----------------------------------------------------------------------------------

  // What the next line begins with, in columns; null: as many as this one. `state` is that of the
  // cursor, `after` what stands behind it.
  const INDENT = {
    // By brackets, as LLVM prints; labels stand where their function does.
    llvm(state, after) {
      const back = /^[\])}]/.test(after) || /^(?:"[^"]*"|[-\w$.]+):/.test(after);
      return 2 * Math.max(0, state.depth - (back ? 1 : 0));
    },
    // Four columns more than the line that opened the innermost bracket; where it closes, as many.
    c(state, after) {
      const opened = state.opened[state.opened.length - 1];
      return opened === undefined ? 0 : opened + (/^[\])}]/.test(after) ? 0 : 4);
    },
    kaleidoscope: (state, after) => (after || !state.opens ? null : state.column + 2),
    python: (state, after) => (after || !state.opens ? null : state.column + 4)
  };
  // A line after which more follows: its last word.
  const OPENS = { kaleidoscope: /^(?:then|else|in)$/, python: /^:$/ };

  function follow(state, piece, kind) {
    if (kind === "comment") return;
    if (kind !== "string" && /^[[({]$/.test(piece)) {
      state.depth += 1;
      state.opened.push(state.column);
    }
    if (kind !== "string" && /^[\])}]$/.test(piece)) {
      state.depth = Math.max(0, state.depth - 1);
      state.opened.pop();
    }
    const opens = OPENS[state.mode];
    if (opens) state.opens = opens.test(piece);
  }

  // -- a cell -------------------------------------------------------------------------------------

  const MODES = { llvm, c, kaleidoscope, python };
  const BODIES = { pass: "python" }; // what stands below a magic of another name
  const FILES = { ll: "llvm", c: "c", h: "c", ks: "kaleidoscope", py: "python" };

  // The parser of a notebook's language; lines that begin with %% may choose another one.
  function parser(name, comment, mode = name) {
    return {
      name,
      // What is typed alone in its line moves to its place: a closing bracket, a label.
      languageData: { commentTokens: { line: comment }, indentOnInput: /^\s*(?:[\])}]|[-\w$.]+:)$/ },
      startState: () => ({ mode, head: true, quotes: "", name: false, depth: 0, opened: [], column: 0, opens: false }),
      token(stream, state) {
        if (state.head && stream.sol()) {
          const magic = stream.match(/^\s*%%(\w+)(.*)/);
          if (magic) {
            const file = /^(?:writefile)\b/.test(magic[1]) && /\.(\w+)\s*$/.exec(magic[2]);
            const below = file ? FILES[file[1]] : BODIES[magic[1]] || magic[1];
            if (Object.hasOwn(MODES, below)) {
              state.mode = below;
              state.head = false;
            }
            return META;
          }
          if (stream.string.trim()) state.head = false;
        }
        if (stream.sol()) state.column = stream.indentation();
        if (!state.quotes && stream.eatSpace()) return null;
        const kind = MODES[state.mode](stream, state);
        follow(state, stream.current(), kind);
        return kind;
      },
      indent: (state, after) => (state.quotes ? null : INDENT[state.mode](state, after))
    };
  }

  // -- a cell in a notebook of another language ---------------------------------------------------

  // What has a notebook of Python by its first line: `%load_ext jitkernel` gives it these cells.
  const MIMES = { llvm: "text/x-llvm", c: "text/x-jitkernel-c", kaleidoscope: "text/x-kaleidoscope" };

  function followCells(panel, languages) {
    const notebook = panel.content;
    const look = async () => {
      const usual = notebook.codeMimetype;
      if (Object.values(MIMES).includes(usual)) return; // one parser has them all
      // An editor shows the language that is loaded last: let its first one be there before.
      await languages.getLanguage(usual);
      await Promise.all(Object.values(MIMES).map(mime => languages.getLanguage(mime)));
      if (usual !== notebook.codeMimetype || notebook.isDisposed) return;
      for (const { model } of notebook.widgets) {
        if (model.type !== "code") continue;
        const first = /^\s*%%(\w+)/.exec(model.sharedModel.getSource());
        const wanted = first && Object.hasOwn(MIMES, first[1]) ? MIMES[first[1]] : null;
        if (wanted && model.mimeType !== wanted) model.mimeType = wanted;
        if (!wanted && Object.values(MIMES).includes(model.mimeType)) model.mimeType = usual;
      }
    };
    panel.context.ready.then(() => {
      look();
      notebook.modelContentChanged.connect(look);
      panel.sessionContext.statusChanged.connect(look); // with a kernel comes the language
    });
  }

  let shared = null;

  async function load(name) {
    const versions = Object.values(shared[name]);
    return (await versions[versions.length - 1].get())();
  }

  async function extension() {
    const { IEditorLanguageRegistry } = await load("@jupyterlab/codemirror");
    const { INotebookTracker } = await load("@jupyterlab/notebook");
    return {
      id: "jitkernel:languages",
      description: "LLVM IR, C and Kaleidoscope for the editor",
      autoStart: true,
      requires: [IEditorLanguageRegistry],
      optional: [INotebookTracker],
      activate: (app, languages, notebooks) => {
        const style = document.createElement("style");
        style.textContent = WRAP;
        document.head.append(style);
        const add = (name, displayName, extension, comment, mode) =>
          languages.addLanguage({
            name,
            displayName,
            mime: "text/x-" + name,
            extensions: [extension].flat(),
            load: async () => {
              const { LanguageSupport, StreamLanguage } = await load("@codemirror/language");
              return new LanguageSupport(StreamLanguage.define(parser(name, comment, mode)));
            }
          });
        add("llvm", "LLVM IR", "ll", ";");
        // JupyterLab has a "C", which knows neither magics nor cells of other languages.
        add("jitkernel-c", "C with magics", [], "//", "c");
        add("kaleidoscope", "Kaleidoscope", "ks", "#");
        if (notebooks) {
          notebooks.forEach(panel => followCells(panel, languages));
          notebooks.widgetAdded.connect((_, panel) => followCells(panel, languages));
        }
      }
    };
  }

  window._JUPYTERLAB = window._JUPYTERLAB || {};
  window._JUPYTERLAB["jitkernel"] = {
    init: scope => {
      shared = scope;
    },
    get: async () => {
      const plugin = await extension();
      return () => ({ __esModule: true, default: plugin });
    }
  };
})();
