// SPDX-License-Identifier: MIT
pragma solidity ^0.8.24;

/// A contract wallet with one owner, for tests: it accepts (ERC-1271) what the
/// owner's key signed, in the form r, s, v with low s and v 27 or 28.
contract Wallet {
    address public owner;

    constructor(address first) {
        owner = first;
    }

    /// Hands the wallet on. What the owner before signed is not accepted any more.
    function setOwner(address next) external {
        require(msg.sender == owner, "not the owner");
        owner = next;
    }

    function isValidSignature(bytes32 hash, bytes calldata signature) external view returns (bytes4) {
        return Signatures.signer(hash, signature) == owner ? this.isValidSignature.selector : bytes4(0xffffffff);
    }
}

/// What an account may delegate to (EIP-7702) to be asked by ERC-1271: it accepts
/// what the key of the account itself signed.
contract Delegate {
    function isValidSignature(bytes32 hash, bytes calldata signature) external view returns (bytes4) {
        return Signatures.signer(hash, signature) == address(this) ? this.isValidSignature.selector : bytes4(0xffffffff);
    }
}

/// Puts wallets at addresses that are known before (CREATE2), as ERC-6492 needs.
contract WalletFactory {
    function deploy(address owner, bytes32 salt) external returns (address) {
        return address(new Wallet{salt: salt}(owner));
    }

    function addressOf(address owner, bytes32 salt) external view returns (address) {
        bytes32 code = keccak256(abi.encodePacked(type(Wallet).creationCode, abi.encode(owner)));
        return address(uint160(uint256(keccak256(abi.encodePacked(bytes1(0xff), address(this), salt, code)))));
    }
}

library Signatures {
    uint256 private constant HALF_ORDER = 0x7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0;

    /// Reverts unless the signature has the one form that wallets agree on.
    function signer(bytes32 hash, bytes calldata signature) internal pure returns (address found) {
        require(signature.length == 65, "length");
        bytes32 s = bytes32(signature[32:64]);
        require(uint256(s) <= HALF_ORDER, "high s");
        found = ecrecover(hash, uint8(signature[64]), bytes32(signature[:32]), s);
        if (found == address(0)) found = address(1); // nobody's: an owner may be zero, as that of a delegated account
    }
}
