/** Hides warnings of Node that do not help an operator. Start errors are one line. */

/** That the name of a TLS server is an address: the driver of EventStoreDB sends it so, and checks certificates by it. */
const ADDRESS_AS_NAME = 'DEP0123'

/** Shows all warnings but these as Node does. */
export function hideKnownWarnings(): void {
  for (const show of process.listeners('warning')) {
    process.off('warning', show)
    process.on('warning', (warning) => {
      if (!('code' in warning) || warning.code !== ADDRESS_AS_NAME) show(warning)
    })
  }
}
