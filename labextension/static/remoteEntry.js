// Colours for LLVM IR cells in JupyterLab, which has no LLVM mode. Written by hand as the module
// federation container that JupyterLab loads (its "prebuilt extension"), so that no Node is needed.
(function () {
  "use strict";

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

  function token(stream) {
    if (stream.eatSpace()) return null;
    if (stream.match(/^;.*/)) return "comment";
    if (stream.sol() || !stream.string.slice(0, stream.start).trim()) {
      if (stream.match(/^%%?[A-Za-z_]\w*(?![\w.$-]*\s*=)/) || stream.match(/^!(?![\w.$]+\s*=).*/)) return "meta";
      if (stream.match(/^(?:"[^"]*"|[-\w$.]+):/)) return "labelName";
    }
    if (stream.match(/^c?"(?:[^"\\]|\\.)*"?/)) return "string";
    if (stream.match(/^@(?:"[^"]*"|[-\w$.]+)/)) return "variableName.definition";
    if (stream.match(/^%(?:"[^"]*"|[-\w$.]+)/)) return "variableName";
    if (stream.match(/^[!#$][-\w$.]+/)) return "meta";
    if (stream.match(/^[us]?0x[0-9A-Fa-f]+|^-?\d[\d_]*(?:\.\d*)?(?:[eE][-+]?\d+)?(?![\w.])/)) return "number";
    const word = stream.match(/^[A-Za-z_][\w.]*/);
    if (word) {
      if (TYPES.test(word[0])) return "typeName";
      if (ATOMS.test(word[0])) return "atom";
      return KEYWORDS.has(word[0]) ? "keyword" : null;
    }
    stream.next();
    return null;
  }

  let shared = null;

  async function load(name) {
    const versions = Object.values(shared[name]);
    return (await versions[versions.length - 1].get())();
  }

  async function extension() {
    const { IEditorLanguageRegistry } = await load("@jupyterlab/codemirror");
    return {
      id: "jitkernel:llvm",
      description: "LLVM IR for the editor",
      autoStart: true,
      requires: [IEditorLanguageRegistry],
      activate: (app, languages) => {
        languages.addLanguage({
          name: "llvm",
          displayName: "LLVM IR",
          mime: "text/x-llvm",
          extensions: ["ll"],
          load: async () => {
            const { LanguageSupport, StreamLanguage } = await load("@codemirror/language");
            return new LanguageSupport(
              StreamLanguage.define({ name: "llvm", token, languageData: { commentTokens: { line: ";" } } })
            );
          }
        });
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
