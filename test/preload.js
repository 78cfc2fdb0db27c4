/**
 * Before each test file: tsx for one that is TypeScript, and nothing else. Every hook on modules that tap adds (mocks,
 * coverage, a compiler of its own) costs each import a call into another thread: half of what a start takes.
 */
import hooks from 'node:async_hooks'
import module, { syncBuiltinESMExports } from 'node:module'

const { register } = module

/** The compiler of tap's plugin stays unused. */
process.env.TAP_TYPE_STRIP_ONLY = '1'
// For this process alone: a relative path means nothing where a test starts others.
delete process.env.NODE_OPTIONS

module.register = (specifier, ...rest) =>
  String(specifier).includes('/@tapjs/') ? undefined : register(specifier, ...rest)

/**
 * tap follows each promise to the test that made it, so that what is thrown later, where nobody waits, has a name. That
 * takes up to a fifth of the processor time. Without it such an error still fails its file, with its stack.
 */
hooks.createHook = () => {
  const none = { enable: () => none, disable: () => none }
  return none
}
syncBuiltinESMExports()

if (process.argv[1]?.endsWith('.ts')) await import('tsx')
