/**
 * Before each test file: tsx for one that is TypeScript, and nothing else. Every hook on modules that tap adds (mocks,
 * coverage, a compiler of its own) costs each import a call into another thread: half of what a start takes.
 */
import module, { syncBuiltinESMExports } from 'node:module'

const { register } = module

/** The compiler of tap's plugin stays unused. */
process.env.TAP_TYPE_STRIP_ONLY = '1'
// For this process alone: a relative path means nothing where a test starts others.
delete process.env.NODE_OPTIONS

module.register = (specifier, ...rest) =>
  String(specifier).includes('/@tapjs/') ? undefined : register(specifier, ...rest)
syncBuiltinESMExports()

if (process.argv[1]?.endsWith('.ts')) await import('tsx')
